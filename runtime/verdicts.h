// Results of verifications on disk, so that a configuration is verified once on a machine, not in every
// process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/family.h"

namespace knobwise::runtime_detail {

/// A folder of measured errors, one file for each kernel: problem, family with its source, configuration,
/// device, driver, compiler and its options. Thread-safe; processes may share a folder. A folder that cannot
/// be read or written, or a file that is damaged, only costs another verification.
class Verdicts {
 public:
  explicit Verdicts(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::optional<ErrorMetrics> find(const std::string& key) const;
  void store(const std::string& key, const ErrorMetrics& metrics) const;

  /// Everything that the error depends on, as text.
  static std::string key(const Problem& problem, const KernelFamily& family,
                         const Configuration& configuration, const DeviceInfo& device);

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace knobwise::runtime_detail
