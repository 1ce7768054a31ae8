// The contract of a kernel family: what a parameterised kernel tells the rest of the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/problem.h"
#include "search_spaces/space.h"
#include "search_spaces/value.h"

namespace knobwise {

class Device;
class Executable;

/// The buffers that a kernel can ask for.
enum class Slot {
  input,
  output,
  parameter,  ///< `index` into Problem::parameters(): 0 is the weights.
  packed,     ///< What the prepare launches made of the parameters; written once, then read-only.
  workspace,  ///< Scratch, from byte `index`; contents undefined between runs.
  scalar,     ///< No buffer: `index` into KernelLaunch::scalars.
};

struct BufferRef {
  Slot slot = Slot::input;
  std::size_t index = 0;

  bool operator==(const BufferRef&) const = default;
};

/// A dense tensor in the buffer of an argument, as the bulk tensor copies of a CUDA kernel see it; what they
/// read outside it is zero. Dimensions begin with the fastest; there are at most 5.
struct TensorMap {
  std::size_t argument = 0;  ///< Index of the buffer: the kernel takes a CUtensorMap there, not the pointer.
  DType dtype = DType::f32;
  std::vector<std::uint64_t> extents;
  std::vector<std::uint32_t> box;    ///< Elements that a copy spans in each dimension: at most 256.
  std::vector<std::uint32_t> steps;  ///< Of those it takes every how many: 1 to 8.
};

/// One launch of a compiled function.
///
/// CUDA: `extern "C" __global__ void function(arguments...)`, in order: a pointer for a buffer, a value for a
/// scalar, a CUtensorMap for the buffer of the tensor map. CPU: `extern "C" void function(void* const*
/// arguments, long long task)`, where a scalar is a pointer to its value; called once for each task in [0,
/// grid[0]) by block[0] threads that take tasks as they come free; tasks must not depend on one another.
struct KernelLaunch {
  std::string function;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<BufferRef> arguments;
  std::vector<std::string> scalars = {};  ///< The bytes of each value.
  std::optional<TensorMap> tensor_map = {};

  static constexpr std::size_t kMostArguments = 64;
};

/// A `__constant__` array of a CUDA module that the prepare step fills from a buffer.
struct ConstantArray {
  std::string name;
  BufferRef source;
  std::size_t bytes = 0;
  bool required = true;  ///< Otherwise an array that the code does not have is left alone.
};

/// A family specialised to one problem and one configuration: what to compile and what to launch.
struct KernelInstance {
  /// The whole translation unit: every dimension and every knob is a constant in it.
  std::string source;
  std::vector<std::string> compiler_options;  ///< Besides the backend's own; later ones prevail.
  std::vector<ConstantArray> constants;
  std::vector<KernelLaunch> prepare;  ///< Once per set of parameters: packs them into `packed`.
  std::vector<KernelLaunch> run;      ///< In order, for every run.
  std::size_t packed_bytes = 0;
  std::size_t workspace_bytes = 0;
};

/// Extents of the output block that one unit of work covers: where seams run. Verification samples both sides
/// of each.
struct OutputTile {
  std::int64_t k = 1, d = 1, h = 1, w = 1;
};

/// A parameterised kernel. Implementations are immutable and thread-safe.
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;

  virtual std::string_view name() const = 0;  ///< Unique within a backend: "direct_conv".
  virtual Backend backend() const = 0;

  /// Why this family cannot do the problem on the device, in words for people; nothing when it can.
  virtual std::optional<std::string> unsupported_reason(const Problem& problem,
                                                        const DeviceInfo& device) const = 0;

  /// The knobs and constraints as T1 text; bound to problem_constants(), DeviceInfo::constants() and
  /// extra_constants().
  virtual std::string_view space_json() const = 0;

  /// Further names for the space's expressions, for example figures derived from the problem's epilogue.
  virtual std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                                     const DeviceInfo& device) const;

  /// Why the space bound to the problem and device has no such configuration, for people; nothing when it
  /// has. Requires a supported problem. Far cheaper than binding.
  virtual std::optional<std::string> violation(const Problem& problem, const Configuration& configuration,
                                               const DeviceInfo& device) const;

  /// Digest of everything that shapes the generated code: sources, space and a version of the host
  /// descriptor.
  virtual std::string source_hash() const = 0;

  /// Requires a supported problem and a configuration of the space bound to it. Built-in families have no
  /// source and leave this alone.
  virtual KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                                     const DeviceInfo& device) const;

  virtual OutputTile tile(const Problem& problem, const Configuration& configuration) const;

  /// Families without source (a vendor library, the built-in reference) return the executable here; others
  /// null, and are compiled.
  virtual std::unique_ptr<Executable> create_builtin(const Problem& problem,
                                                     const Configuration& configuration,
                                                     Device& device) const;
  /// True when create_builtin() serves instead of instantiate().
  virtual bool builtin() const { return false; }
};

/// The family's space before a problem and a device are chosen: parsed on first use, valid as long as the
/// program. Thread-safe.
const SearchSpace& declared_space(const KernelFamily& family);

/// Binds the family's space to the problem and device.
BoundSpace bind_space(const KernelFamily& family, const Problem& problem, const DeviceInfo& device);

/// What the space bound to the problem and device has for its default_index(); nothing if it is empty.
/// Requires a supported problem. Far cheaper than binding where every knob can have its default.
std::optional<Configuration> default_configuration(const KernelFamily& family, const Problem& problem,
                                                   const DeviceInfo& device);

/// Every family of a backend, reference last. The objects live as long as the program.
const std::vector<const KernelFamily*>& families(Backend backend);
/// Null if there is none of that name.
const KernelFamily* find_family(Backend backend, std::string_view name);

/// Adds a family to its backend for the rest of the program, before the reference; it must live as long. Not
/// thread-safe: call before the backend is used.
void register_family(const KernelFamily& family);

/// #define lines that begin every generated source: KW_N KW_C KW_D KW_H KW_W KW_K KW_T KW_R KW_S
/// KW_STRIDE_D/H/W KW_PAD_D/H/W KW_DILATION_D/H/W KW_GROUPS KW_BIAS (0/1) KW_OD KW_OH KW_OW KW_RANK
/// KW_DTYPE_F32/F16/BF16 (0/1) KW_NHWC (0/1), then KNOB_<name> for every knob (text values become
/// KNOB_<name>_<value> 1).
std::string source_prelude(const Problem& problem, const Configuration& configuration);

/// C++/CUDA text of `KW_FN float kw_elementwise(float x, long long element)` for the element-wise steps
/// [first, last) of the epilogue: pure arithmetic on x, fully inlinable and vectorisable. Steps with
/// parameters (residual) are not accepted here. KW_FN must be defined by the including source (`static
/// inline`, `__device__`).
std::string elementwise_source(const Problem& problem, std::size_t first, std::size_t last);

}  // namespace knobwise
