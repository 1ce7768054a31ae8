// What an application links: for every convolution the fastest known kernel, at once, with its provenance.
//
//   knobwise::Dispatcher dispatcher({.databases = {"tuned.db"}});
//   knobwise::Plan plan = dispatcher.plan("conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu");
//   plan.prepare({weights, bias});
//   plan.run(input, output);
//
// Errors: every mistake of the caller (a bad problem line, a null, misaligned or too small buffer, a device
// that is not there) is a UserError with one line that says what to do. A device that fails at work throws a
// std::runtime_error. Nothing here ends the process.
#pragma once

#if __cplusplus < 202002L
#error "knobwise/dispatcher.h needs C++20 (-std=c++20)"
#endif

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/problem.h"
#include "search_spaces/user_error.h"

namespace knobwise {

/// How a plan's kernel was found, in the order in which the steps are tried.
enum class Provenance {
  exact,           ///< Measured for this problem on an equivalent device.
  nearest,         ///< Measured for the nearest problem it is valid for; verified here for this one.
  family_default,  ///< A family's default configuration; verified here.
  vendor,          ///< The vendor's library (cuDNN, oneDNN); verified here.
  reference,       ///< The plain kernel: slow, and the definition of correct.
};
inline constexpr Provenance kProvenances[] = {Provenance::exact, Provenance::nearest,
                                              Provenance::family_default, Provenance::vendor,
                                              Provenance::reference};
std::string_view to_string(Provenance provenance);

/// The steps of the lookup that a caller allows. A value.
class ProvenanceSet {
 public:
  constexpr ProvenanceSet(std::initializer_list<Provenance> members) {
    for (Provenance member : members) bits_ |= 1u << static_cast<unsigned>(member);
  }
  static constexpr ProvenanceSet all() {
    return {Provenance::exact, Provenance::nearest, Provenance::family_default, Provenance::vendor,
            Provenance::reference};
  }
  /// Names separated by commas ("exact,nearest"), or "all". Throws UserError.
  static ProvenanceSet parse(std::string_view text);

  constexpr bool contains(Provenance member) const { return bits_ >> static_cast<unsigned>(member) & 1u; }
  constexpr std::uint32_t bits() const { return bits_; }
  bool operator==(const ProvenanceSet&) const = default;

 private:
  std::uint32_t bits_ = 0;
};

/// What a caller asks of a kernel besides the right answer. A value.
struct Requirement {
  /// The error accepted; none stands for what the problem's data type can hold: allclose for f32, half for
  /// f16, bf16 for bf16.
  std::optional<AccuracyRequirement> accuracy = std::nullopt;
  /// The most scratch memory a run may use; none is no limit.
  std::optional<std::size_t> max_workspace_bytes = std::nullopt;
  /// Steps that may answer; a plan that none of them yields is a UserError that lists why.
  ProvenanceSet allow = ProvenanceSet::all();
  /// Equal inputs give bit-equal outputs in every run: leaves out configurations with a knob `deterministic`
  /// that is false.
  bool deterministic = false;
  /// Trust results of another version of a family's source. Otherwise they are reported and passed over.
  bool allow_stale = false;
};

/// What a plan runs and how it was found. A value.
struct PlanDescription {
  std::string problem;  ///< Canonical line.
  std::string device;   ///< "NVIDIA H200".
  std::string family;   ///< "direct_conv".
  Configuration configuration;
  Provenance provenance = Provenance::reference;
  /// Microseconds a run takes: measured for an exact answer, scaled by operations for a nearest one, unknown
  /// otherwise.
  std::optional<double> predicted_us;
  /// The worst measured value of every metric over the distributions on record, or of the verification here.
  std::optional<ErrorMetrics> error;
  std::string database;         ///< The file that answered; empty beyond the first two steps.
  std::string based_on;         ///< The problem line of the answer: another one for `nearest`.
  std::string based_on_device;  ///< The device it was measured on.
  /// How far that device is this one: "same device", "same architecture and size" (under another name), "same
  /// architecture"; empty beyond the first two steps.
  std::string device_match;
  bool stored_code = false;  ///< Runs machine code from the database: nothing was compiled.
  std::size_t workspace_bytes = 0;
  std::size_t packed_bytes = 0;
  bool stale = false;              ///< Measured with another version of the family's source.
  std::vector<std::string> notes;  ///< What was passed over and why, in order.

  /// One line for people.
  std::string to_string() const;
  /// One JSON object with every field.
  std::string to_json() const;
};

namespace runtime_detail {
/// The size of a range's numbers; 0 where it says nothing of the data type: bytes, and types of the caller's.
template <class Range>
inline constexpr std::size_t number_bytes = [] {
  using Element = std::ranges::range_value_t<Range>;
  return std::is_arithmetic_v<Element> && sizeof(Element) > 1 ? sizeof(Element) : 0;
}();
}  // namespace runtime_detail

/// Memory that is only read: a pointer and its size in bytes, on the plan's device. Not owned.
struct ConstBuffer {
  const void* data = nullptr;
  std::size_t bytes = 0;
  /// Of one number, where it is known: another one than the problem's data type has is refused, so that
  /// doubles are not read as floats. 0 is not known.
  std::size_t number_bytes = 0;

  constexpr ConstBuffer() = default;
  constexpr ConstBuffer(const void* begin, std::size_t size) : data(begin), bytes(size) {}
  /// Any contiguous range that outlives the call: std::vector<float>, std::span<const float>.
  template <std::ranges::contiguous_range Range>
  requires std::ranges::borrowed_range<Range> ConstBuffer(Range&& range)
      : data(std::ranges::data(range)),
        bytes(std::ranges::size(range) * sizeof(std::ranges::range_value_t<Range>)),
        number_bytes(runtime_detail::number_bytes<Range>) {}
};

/// Memory that is written, as ConstBuffer.
struct MutableBuffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t number_bytes = 0;

  constexpr MutableBuffer() = default;
  constexpr MutableBuffer(void* begin, std::size_t size) : data(begin), bytes(size) {}
  template <std::ranges::contiguous_range Range>
  requires(std::ranges::borrowed_range<Range> &&
           !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
      MutableBuffer(Range&& range)
      : data(std::ranges::data(range)),
        bytes(std::ranges::size(range) * sizeof(std::ranges::range_value_t<Range>)),
        number_bytes(runtime_detail::number_bytes<Range>) {}
};

/// Every pointer given to a plan is aligned to this many bytes.
inline constexpr std::size_t kBufferAlignment = 16;

class Dispatcher;
class PlanKey;

namespace runtime_detail {
class Core;
struct Choice;
}  // namespace runtime_detail

/// A kernel bound to one problem and, after prepare(), to one set of parameters.
///
/// Owns its packed weights and, unless the caller brings it, its workspace; refers to the parameters, which
/// must outlive its runs. Keeps the device and the code alive, also beyond its Dispatcher. Movable.
///
/// Thread safety: run() may be called from any number of threads at once, on disjoint outputs; with the
/// plan's own workspace such runs follow one another. prepare(), moving and destroying must not overlap with
/// anything. After the first call, run() neither allocates nor waits for the device, so that it can be
/// captured into a CUDA graph. (On the CPU the reference and oneDNN allocate in every run.) A graph refers to
/// the plan's memory: keep the plan as long as the graph, and capture again after prepare().
///
/// Sizes, alignment and overlaps are checked in every call. Whose memory a pointer is and whose a stream, the
/// driver tells: it is asked once for each combination of pointers and stream, so keep a plan's memory
/// allocated as long as it runs on it.
///
/// One that was moved from can only be assigned to and destroyed; asking anything else of it is a UserError.
class Plan {
 public:
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// Takes the parameters in the order of Problem::parameters() (weights, bias, ...), in device memory, and
  /// packs them once as the kernel wants them, on `stream`. Call again after their contents change.
  /// Allocates.
  void prepare(std::span<const ConstBuffer> parameters, void* stream = nullptr);
  void prepare(std::initializer_list<ConstBuffer> parameters, void* stream = nullptr) {
    prepare(std::span(parameters.begin(), parameters.size()), stream);
  }
  bool prepared() const { return owned_ != nullptr; }

  /// Runs the problem: on the CPU before returning, on CUDA queued on `stream` (a CUstream of this device;
  /// null is the default one). Input and output must not overlap. Where workspace_bytes() is not 0, the first
  /// run allocates a workspace that the plan keeps: such runs go on one stream, or wait for one another.
  void run(ConstBuffer input, MutableBuffer output, void* stream = nullptr);
  /// The same with scratch memory of the caller, of workspace_bytes() or more: for runs at once on several
  /// streams.
  void run(ConstBuffer input, MutableBuffer output, MutableBuffer workspace, void* stream = nullptr);

  /// Put together when asked: a plan keeps as little as it can.
  PlanDescription description() const;
  Problem problem() const;
  std::size_t input_bytes() const;
  std::size_t output_bytes() const;
  std::size_t workspace_bytes() const;

 private:
  friend class Dispatcher;
  struct Owned;
  Plan(std::shared_ptr<runtime_detail::Core> core, const runtime_detail::Choice* choice) noexcept;
  runtime_detail::Core& core() const;
  void launch(ConstBuffer input, MutableBuffer output, void* workspace, void* stream);
  void check_first_use(const void* input, const void* output, const void* workspace, void* stream) const;

  std::shared_ptr<runtime_detail::Core> core_;
  const runtime_detail::Choice* choice_ = nullptr;  // owned by core_
  std::unique_ptr<Owned> owned_;  // parameters, packed weights, workspace; from prepare() on
};

/// A problem with a requirement, hashed once: the fastest way to ask again. A value.
class PlanKey {
 public:
  explicit PlanKey(Problem problem, Requirement requirement = {});

  const Problem& problem() const { return problem_; }
  const Requirement& requirement() const { return requirement_; }
  /// Both as bytes, for the library: equal keys have equal bytes and hashes.
  std::string_view bytes() const { return bytes_; }
  std::uint64_t hash() const { return hash_; }

 private:
  Problem problem_;
  Requirement requirement_;
  std::string bytes_;
  std::uint64_t hash_ = 0;
};

/// Tuning in the background, by the knobwise executable, of the problems that no database answers exactly.
/// What it finds goes into the first database, from where it serves after Dispatcher::refresh().
struct TuneOnMiss {
  /// Of search for each problem; 0 is no tuning.
  double seconds = 0;
  /// After so many seconds the process is ended, whatever it is at: a search is followed by timing its best
  /// again. What is measured by then is kept. 0 stands for twice `seconds` and a minute.
  double limit_seconds = 0;
  /// The knobwise executable of this library's version; empty: $KNOBWISE_EXECUTABLE, else `knobwise` on the
  /// PATH.
  std::filesystem::path executable = {};
};

enum class TuningState {
  none,      ///< Never asked for: switched off, answered exactly, or failed before the last refresh().
  waiting,   ///< For its turn: one process at a time tunes on a device.
  running,   ///< A process searches.
  finished,  ///< refresh() lets the result serve.
  failed,    ///< `message` says why; asked for again after a refresh().
};
std::string_view to_string(TuningState state);

/// What became of tuning a problem in the background. A value.
struct TuningStatus {
  TuningState state = TuningState::none;
  std::string message;  ///< One line, for people; may be empty unless it failed.
};

/// Relative paths are those of the current folder when the Dispatcher is made.
struct DispatcherOptions {
  /// Tuning databases, opened read-only; the first that has an answer wins (user before site before shipped).
  /// One that is missing or unreadable is reported in Dispatcher::notes() and passed over.
  std::vector<std::filesystem::path> databases = {};
  /// Those of `databases` whose machine code for the processor may be run, as far as they have any: it has
  /// all the rights of this process, so name only files that nobody else can write. Machine code for a GPU
  /// needs no trust: see docs/security.md.
  std::vector<std::filesystem::path> trusted = {};
  /// "cpu", "cuda", "cuda:N", or "best": the first CUDA device if there is one, else the CPU.
  std::string device = "best";
  /// Where compiled code is kept between processes; empty: $KNOBWISE_CACHE, else $XDG_CACHE_HOME/knobwise,
  /// else ~/.cache/knobwise.
  std::filesystem::path code_cache = {};
  /// Needs a database that takes the results: the first of `databases`, which is made if it is missing.
  TuneOnMiss tune_on_miss = {};
  /// Called once for each problem and requirement with what was decided, from a thread that asked, and again
  /// when a refresh() changed that; several may call at once. Empty: a line on standard error says it, and
  /// what is wrong with the databases.
  std::function<void(const PlanDescription&)> on_new_plan = {};
};

/// Finds kernels: database first, then safe fallbacks.
///
/// Thread safety: plan(), refresh(), tuning() and notes() may be called from any number of threads at once; a
/// lookup that hits takes no lock and does not allocate.
///
/// One that was moved from can only be assigned to and destroyed; asking anything else of it is a UserError.
class Dispatcher {
 public:
  /// Opens the device and the databases. Throws UserError when the device cannot be used.
  explicit Dispatcher(DispatcherOptions options = {});
  Dispatcher(Dispatcher&&) noexcept;
  Dispatcher& operator=(Dispatcher&&) noexcept;
  ~Dispatcher();

  /// A new plan for the problem. The first time for a problem and requirement, looks into the databases and
  /// may compile and verify; later a probe of a hash table. Throws UserError if no allowed step yields a
  /// kernel that meets the requirement.
  Plan plan(const Problem& problem, const Requirement& requirement = {});
  Plan plan(const PlanKey& key);
  /// Problem::parse(), then plan().
  Plan plan(std::string_view problem_line, const Requirement& requirement = {});

  /// Reads the databases again for lookups from now on; plans handed out stay as they are.
  void refresh();

  /// What became of tuning a problem in the background (DispatcherOptions::tune_on_miss); never waits. The
  /// process ends with the Dispatcher.
  TuningStatus tuning(const Problem& problem, const Requirement& requirement = {}) const;

  const DeviceInfo& device() const;
  /// What is wrong with the databases, a line each with the next step; empty when all is well.
  std::vector<std::string> notes() const;

 private:
  struct Impl;
  Impl& impl() const;

  std::unique_ptr<Impl> impl_;
};

/// "0.1.0": semantic version of the library in use.
std::string_view version();

}  // namespace knobwise
