// A user's own kernel: a family that a T1 file describes.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/family.h"
#include "kernels/user/argument.h"
#include "kernels/user/launch_shape.h"

namespace knobwise {

/// The outputs that a T1 file gives as data.
struct ReferenceArgument {
  std::size_t target = 0;  ///< Index into UserKernel::arguments().
  ArgumentFill fill;
};

/// One kernel with its space, its arguments and what its output must be; docs/user_kernels.md describes the
/// file.
///
/// Supports exactly one problem, its own: `user:NAME size=XxYxZ`, NAME being the space's name. Immutable and
/// thread-safe.
class UserKernel : public KernelFamily {
 public:
  /// Reads the T1 file and the source that it names. `size` replaces the file's ProblemSize. Throws UserError
  /// that names file, place and remedy.
  static std::unique_ptr<UserKernel> load(const std::filesystem::path& file,
                                          const std::optional<ProblemSize>& size);

  /// The T1 file, absolute.
  const std::filesystem::path& file() const { return file_; }
  const Problem& problem() const { return problem_; }
  const std::vector<UserArgument>& arguments() const { return arguments_; }

  /// Empty: the outputs of reference_instance() are the reference.
  const std::vector<ReferenceArgument>& references() const { return references_; }
  /// The reference kernel, if the file names one, else the kernel itself, in the default configuration.
  KernelInstance reference_instance(const DeviceInfo& device) const;
  /// For messages: "the reference kernel NAME", "the default configuration".
  std::string reference_description() const;

  std::string_view name() const override { return name_; }
  Backend backend() const override { return code_.backend; }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override;
  std::string_view space_json() const override { return text_; }
  std::string source_hash() const override { return hash_; }
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

 private:
  /// What is compiled and launched, for the kernel and for its reference.
  struct Code {
    Backend backend = Backend::cpu;
    std::filesystem::path path;
    std::string function;
    std::string source;
    std::vector<std::string> options;
    LaunchShape shape;
  };

  UserKernel() = default;
  static Code read_code(const nlohmann::json& specification, const std::filesystem::path& folder,
                        const std::string& place);
  void read_arguments(const nlohmann::json& specification, const SearchSpace& space,
                      const std::filesystem::path& folder, const std::string& place);
  void read_references(const nlohmann::json& specification, const std::filesystem::path& folder,
                       const std::string& place);
  void digest(const nlohmann::json& specification);
  KernelInstance instance_of(const Code& code, const Configuration& configuration,
                             const DeviceInfo& device) const;
  void add_arguments(KernelInstance& instance, KernelLaunch& launch) const;

  std::filesystem::path file_;
  std::string text_, name_, hash_;
  Problem problem_;
  ProblemSize size_;
  Code code_;
  std::optional<Code> reference_code_;
  std::vector<UserArgument> arguments_;
  std::vector<ReferenceArgument> references_;
};

/// The size of a user's problem; empty if it has none.
ProblemSize problem_size(const Problem& problem);

/// "4096x4096"; empty without extents.
std::string size_text(const ProblemSize& size);

/// "4096x4096" as a problem size; throws UserError that begins with `option`.
ProblemSize parse_problem_size(std::string_view text, std::string_view option);

}  // namespace knobwise
