#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <mutex>

#include "include/knobwise/dispatcher.h"
#include "runtime/core.h"
#include "runtime/key_bytes.h"

namespace knobwise {
namespace {

void check_pointer(const void* data, std::string_view name) {
  if (!data) throw UserError(fmt::format("{}: a null pointer", name));
  if (reinterpret_cast<std::uintptr_t>(data) % kBufferAlignment != 0) {
    throw UserError(fmt::format("{}: not aligned to {} bytes", name, kBufferAlignment));
  }
}

// Of a ConstBuffer or a MutableBuffer.
template <class Buffer>
void check_size(const Buffer& buffer, std::size_t wanted, std::string_view name) {
  check_pointer(buffer.data, name);
  if (buffer.bytes < wanted)
    throw UserError(fmt::format("{}: {} bytes given, {} needed", name, buffer.bytes, wanted));
}

template <class Buffer>
void check_numbers(const Buffer& buffer, std::size_t wanted, std::string_view name) {
  if (buffer.number_bytes == 0 || buffer.number_bytes == wanted) return;
  throw UserError(fmt::format("{}: numbers of {} bytes given, the problem's data type has {}", name,
                              buffer.number_bytes, wanted));
}

std::uint64_t hash_of(std::initializer_list<const void*> pointers) {
  std::uint64_t state = 1;
  for (const void* pointer : pointers) {
    state = (state ^ reinterpret_cast<std::uintptr_t>(pointer)) * 0x9E3779B97F4A7C15ull;
    state ^= state >> 29;
  }
  return state;
}

void check_memory(const Device& device, const void* data, std::size_t bytes, std::string_view name,
                  Access access) {
  if (const auto problem = device.memory_problem(data, bytes, access))
    throw UserError(fmt::format("{}: {}", name, *problem));
}

void check_stream(const Device& device, Stream stream) {
  if (const auto problem = device.stream_problem(stream))
    throw UserError(fmt::format("stream: {}", *problem));
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a), begin_b = reinterpret_cast<std::uintptr_t>(b);
  return begin_a < begin_b + b_bytes && begin_b < begin_a + a_bytes;
}

constinit thread_local bool kept_buffers_ended = false;

// What a thread's runs copy their pointers to, kept so that later ones do not allocate. Null once it has
// ended with the thread's other variables: destructors of static objects may still run plans.
Buffers* kept_buffers() {
  struct Kept : Buffers {
    ~Kept() { kept_buffers_ended = true; }
  };
  if (kept_buffers_ended) return nullptr;
  thread_local Kept kept;
  return &kept;
}

}  // namespace

// The arguments of runs that were found good, as hashes. Asking the driver about a pointer costs more than a
// launch, and callers use the same few again and again. Thread-safe.
class SeenArguments {
 public:
  bool contains(std::uint64_t hash) const { return place(hash).load(std::memory_order_relaxed) == hash; }
  void add(std::uint64_t hash) { place(hash).store(hash, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t>& place(std::uint64_t hash) { return places_[hash % places_.size()]; }
  const std::atomic<std::uint64_t>& place(std::uint64_t hash) const { return places_[hash % places_.size()]; }

  std::array<std::atomic<std::uint64_t>, 16> places_{};
};

struct Plan::Owned {
  Buffers buffers;  // parameters and packed
  std::vector<std::size_t> parameter_bytes;
  SeenArguments seen;
  std::unique_ptr<DeviceBuffer> packed;
  std::mutex workspace_mutex;
  std::unique_ptr<DeviceBuffer> workspace;  // from the first run() without the caller's on
};

Plan::Plan(std::shared_ptr<runtime_detail::Core> core, const runtime_detail::Choice* choice) noexcept
    : core_(std::move(core)), choice_(choice) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

runtime_detail::Core& Plan::core() const {
  if (!core_) throw UserError("this plan was moved to another one; use that one");
  return *core_;
}

PlanDescription Plan::description() const {
  return core().describe(*choice_);
}
Problem Plan::problem() const {
  core();
  return runtime_detail::problem_of_key(choice_->key);
}
std::size_t Plan::input_bytes() const {
  core();
  return choice_->input_bytes;
}
std::size_t Plan::output_bytes() const {
  core();
  return choice_->output_bytes;
}
std::size_t Plan::workspace_bytes() const {
  core();
  return choice_->executable->workspace_bytes();
}

void Plan::prepare(std::span<const ConstBuffer> parameters, void* stream) {
  const Problem problem = this->problem();
  const std::vector<ParameterSpec> specs = problem.parameters();
  if (parameters.size() != specs.size()) {
    throw UserError(
        fmt::format("prepare: {} parameters given, the problem has {}", parameters.size(), specs.size()));
  }
  auto owned = std::make_unique<Owned>();
  check_stream(core_->device(), stream);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::size_t wanted = static_cast<std::size_t>(specs[i].elements()) * choice_->number_bytes;
    check_numbers(parameters[i], choice_->number_bytes, specs[i].name);
    check_size(parameters[i], wanted, specs[i].name);
    check_memory(core_->device(), parameters[i].data, wanted, specs[i].name, Access::read);
    // Kernels only read parameters; the launch contract has one pointer type.
    owned->buffers.parameters.push_back(const_cast<void*>(parameters[i].data));
    owned->parameter_bytes.push_back(wanted);
  }
  const std::lock_guard lock(core_->device_mutex());
  Device& device = core_->device();
  if (const std::size_t bytes = choice_->executable->packed_bytes(); bytes > 0) {
    owned->packed = device.allocate(bytes, "packed weights");
    owned->buffers.packed = owned->packed->data();
  }
  choice_->executable->prepare(owned->buffers, stream);
  owned_ = std::move(owned);
}

void Plan::run(ConstBuffer input, MutableBuffer output, void* stream) {
  if (!prepared()) throw UserError("run: call prepare() with the parameters first");
  if (workspace_bytes() == 0) return launch(input, output, nullptr, stream);
  const std::lock_guard lock(owned_->workspace_mutex);
  if (!owned_->workspace) {
    const std::lock_guard device_lock(core_->device_mutex());
    owned_->workspace = core_->device().allocate(workspace_bytes(), "workspace");
  }
  launch(input, output, owned_->workspace->data(), stream);
}

void Plan::run(ConstBuffer input, MutableBuffer output, MutableBuffer workspace, void* stream) {
  if (!prepared()) throw UserError("run: call prepare() with the parameters first");
  if (workspace_bytes() > 0) {
    check_size(workspace, workspace_bytes(), "workspace");
    if (overlap(workspace.data, workspace_bytes(), input.data, input_bytes()) ||
        overlap(workspace.data, workspace_bytes(), output.data, output_bytes()))
      throw UserError("run: the workspace overlaps the input or the output");
  }
  launch(input, output, workspace.data, stream);
}

void Plan::check_first_use(const void* input, const void* output, const void* workspace, void* stream) const {
  const Device& device = core_->device();
  check_memory(device, input, input_bytes(), "input", Access::read);
  check_memory(device, output, output_bytes(), "output", Access::write);
  if (workspace_bytes() > 0) check_memory(device, workspace, workspace_bytes(), "workspace", Access::write);
  check_stream(device, stream);
  for (std::size_t i = 0; i < owned_->parameter_bytes.size(); ++i) {
    const void* parameter = owned_->buffers.parameters[i];
    const std::size_t bytes = owned_->parameter_bytes[i];
    if (overlap(output, output_bytes(), parameter, bytes) ||
        overlap(workspace, workspace_bytes(), parameter, bytes))
      throw UserError(fmt::format("run: the output or the workspace overlaps parameter {}", i));
  }
}

void Plan::launch(ConstBuffer input, MutableBuffer output, void* workspace, void* stream) {
  check_numbers(input, choice_->number_bytes, "input");
  check_numbers(output, choice_->number_bytes, "output");
  check_size(input, input_bytes(), "input");
  check_size(output, output_bytes(), "output");
  if (overlap(input.data, input_bytes(), output.data, output_bytes()))
    throw UserError("run: input and output overlap");
  const std::uint64_t arguments = hash_of({input.data, output.data, workspace, stream});
  if (!owned_->seen.contains(arguments)) {
    check_first_use(input.data, output.data, workspace, stream);
    owned_->seen.add(arguments);
  }
  Executable& executable = *choice_->executable;
  // A copy for this call: runs with different outputs may be under way at once.
  Buffers late;
  Buffers* const kept = kept_buffers();
  Buffers& buffers = kept ? *kept : late;
  buffers.parameters.assign(owned_->buffers.parameters.begin(), owned_->buffers.parameters.end());
  buffers.packed = owned_->buffers.packed;
  buffers.input = const_cast<void*>(input.data);
  buffers.output = output.data;
  buffers.workspace = workspace;
  executable.run(buffers, stream);
}

}  // namespace knobwise
