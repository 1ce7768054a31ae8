// Devices: memory, loaded code and timing, the same for every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/family.h"

namespace knobwise {

/// What a compiler and driver say of a compiled kernel; -1 where they say nothing.
struct Resources {
  int registers = -1;
  int spill_bytes = -1;
  int stack_bytes = -1;
  int static_shared_bytes = -1;
  int dynamic_shared_bytes = -1;
  double occupancy = -1;  ///< Resident warps over the most a multiprocessor holds, 0 to 1.
  double waves = -1;      ///< Blocks of a launch over those that the device holds at once.
  std::int64_t binary_bytes = -1;
};

/// Machine code for one KernelInstance.
struct CompiledCode {
  std::string image;  ///< cubin, or a shared object.
  Resources resources;
  double seconds = 0;  ///< Time the compiler took.
};

/// Compiling, loading or running failed for a reason that belongs to the configuration: recorded as a trial.
class TrialError : public std::runtime_error {
 public:
  /// `status` is one of the statuses of the trials table: compile_failed, launch_failed, out_of_resources,
  /// ...
  TrialError(std::string status, const std::string& message)
      : std::runtime_error(message), status_(std::move(status)) {}
  const std::string& status() const { return status_; }

 private:
  std::string status_;
};

/// Raw pointers, in device memory, for one run. Not owned.
struct Buffers {
  void* input = nullptr;
  void* output = nullptr;
  std::vector<void*> parameters;
  void* packed = nullptr;
  void* workspace = nullptr;

  void* resolve(BufferRef reference) const;
};

/// A queue of work: a CUstream; null is the default one. The CPU ignores it.
using Stream = void*;

/// Throws TrialError (load_failed) for a launch with more than KernelLaunch::kMostArguments arguments, or
/// with a tensor map of none of them.
void check_arguments(const KernelLaunch& launch);

/// Code ready to run on a device. Thread-safe for calls with disjoint output and workspace.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual std::size_t packed_bytes() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  /// Fills buffers.packed from buffers.parameters.
  virtual void prepare(const Buffers& buffers, Stream stream) = 0;
  /// Queues one run (the CPU backend finishes it before returning). Throws TrialError if a launch fails.
  virtual void run(const Buffers& buffers, Stream stream) = 0;
  virtual Resources resources() const { return {}; }
};

/// Device memory, freed on destruction.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

struct TimingOptions {
  int warmup = 2;
  int min_samples = 5;
  int max_samples = 50;
  double max_seconds = 2.0;  ///< Stop sampling after this time, cache flushes included, or after this much
                             ///< measured time; never below one sample.
  double relative_halfwidth = 0.01;  ///< Stop when the figure that ranks is this sure: see kernels/timing.h.
  /// If positive: the timing ends once every run so far was slower than this; after the first run if that was
  /// far slower.
  double abandon_above_us = 0;
  /// If positive: min_samples are enough for what was slower than this in every run.
  double beaten_above_us = 0;
};

struct Timing {
  std::vector<float> samples_us;
  double median_us = 0, min_us = 0, mean_us = 0;
  double summary_us = 0;   ///< What trials are ranked by: the median on a GPU; the lower quartile on a CPU,
                           ///< whose noise only adds.
  bool abandoned = false;  ///< Ended early, because it was too slow to matter.
};

/// What a device's sensors say at a moment; nothing where the system does not tell.
struct DeviceState {
  std::optional<std::int64_t> clock_khz;  ///< Of the multiprocessors, or the fastest core's.
  std::optional<double> temperature_c;
};

/// What a kernel does with memory of the caller.
enum class Access { read, write };

/// One device in use. Calls on one object must not overlap, except those on its Executables and those that
/// say "thread-safe".
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  /// Throws UserError, naming what was wanted and what is free, when the memory does not suffice.
  virtual std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, std::string_view purpose) = 0;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  virtual void fill_bytes(void* device, unsigned char value, std::size_t bytes) = 0;
  /// Why kernels of this device cannot use so many bytes at an address, in words that follow a name ("input:
  /// ..."); nothing when they can, as far as the system tells. Some hundred nanoseconds; thread-safe.
  virtual std::optional<std::string> memory_problem(const void*, std::size_t, Access) const {
    return std::nullopt;
  }
  /// Likewise of a stream.
  virtual std::optional<std::string> stream_problem(Stream) const { return std::nullopt; }

  /// Waits for all queued work; throws TrialError if any of it failed.
  virtual void synchronize() = 0;

  /// Fills `elements` values of type `dtype` as operand_value() (kernels/operands.h) defines them.
  virtual void fill_operand(void* device, DType dtype, std::int64_t elements,
                            const struct OperandFill& fill) = 0;

  /// Compares an output against float64 for all or sampled elements; see kernels/reference.h for what is
  /// sampled.
  virtual ErrorMetrics verify(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                              std::uint64_t seed) = 0;

  /// Gives back the memory and the code that verify() keeps for further calls.
  virtual void forget_references() {}

  virtual std::unique_ptr<Executable> load(const KernelInstance& instance, const CompiledCode& code) = 0;

  /// Samples runs of `executable`; caches are flushed before each sample, outside the timed region.
  virtual Timing time(Executable& executable, const Buffers& buffers, const TimingOptions& options) = 0;

  /// Read from the sensors now; takes up to some milliseconds.
  virtual DeviceState state() { return {}; }
};

/// Compiles for the device described; needs no device. Throws TrialError (compile_failed, compile_timeout),
/// and UserError for what keeps every source from being compiled: no compiler, no space for its files. Safe
/// to call from several threads and processes.
CompiledCode compile(const KernelInstance& instance, const DeviceInfo& target);

/// The compiler's command and options that compile() would use, as one line: with the source, the target and
/// the compiler's version they determine the code. Thread-safe.
std::string compile_options(const DeviceInfo& target);

/// NVRTC or the host compiler, with its version; empty when there is none. The first call asks the compiler,
/// which takes tens of milliseconds. Thread-safe.
std::string compiler_version(Backend backend);

/// All devices of this machine: the CPU first, then every CUDA device. A backend that cannot be used adds one
/// line to `notes`.
std::vector<DeviceInfo> list_devices(std::vector<std::string>* notes);

/// Opens "cpu", "cuda", "cuda:N" or "best" (the first CUDA device if there is one, else the CPU). Throws
/// UserError.
std::unique_ptr<Device> open_device(std::string_view name);

}  // namespace knobwise
