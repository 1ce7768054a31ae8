#include "kernels/vendor/onednn.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "embedded/vendor_spaces.h"
#include "kernels/device.h"
#include "kernels/vendor/plain_epilogue.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

#define KW_ONEDNN_FUNCTIONS(X)                                                                             \
  X(dnnl_engine_create)                                                                                    \
  X(dnnl_stream_create)                                                                                    \
  X(dnnl_stream_wait)                                                                                      \
  X(dnnl_memory_desc_init_by_tag)                                                                          \
  X(dnnl_memory_desc_equal)                                                                                \
  X(dnnl_memory_desc_get_size)                                                                             \
  X(dnnl_memory_create) X(dnnl_memory_destroy) X(dnnl_memory_set_data_handle)                              \
      X(dnnl_dilated_convolution_forward_desc_init) X(dnnl_primitive_desc_create)                          \
          X(dnnl_primitive_desc_destroy) X(dnnl_primitive_desc_query_md) X(dnnl_primitive_create)          \
              X(dnnl_primitive_destroy) X(dnnl_primitive_execute) X(dnnl_reorder_primitive_desc_create)    \
                  X(dnnl_primitive_attr_create) X(dnnl_primitive_attr_destroy)                             \
                      X(dnnl_primitive_attr_set_post_ops) X(dnnl_primitive_attr_set_scratchpad_mode)       \
                          X(dnnl_post_ops_create) X(dnnl_post_ops_destroy) X(dnnl_post_ops_append_eltwise) \
                              X(dnnl_version)

// The library's functions, found at run time.
struct Library {
#define X(name) decltype(&::name) name = nullptr;
  KW_ONEDNN_FUNCTIONS(X)
#undef X
  std::string missing;  // why it cannot be used; empty when it can
  std::string version;
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  int (*most_threads)() = nullptr;  // of its OpenMP
};

const Library& library() {
  static const Library& loaded = never_destroyed([] {
    Library l;
    void* handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      l.missing = "libdnnl.so.2 (oneDNN) is not installed";
      return l;
    }
#define X(name)                                                      \
  l.name = reinterpret_cast<decltype(l.name)>(dlsym(handle, #name)); \
  if (!l.name) l.missing = fmt::format("libdnnl.so.2 has no {}", #name);
    KW_ONEDNN_FUNCTIONS(X)
#undef X
    if (!l.missing.empty()) return l;
    l.most_threads = reinterpret_cast<int (*)()>(dlsym(handle, "omp_get_max_threads"));
    const dnnl_version_t* version = l.dnnl_version();
    l.version = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
    if (l.dnnl_engine_create(&l.engine, dnnl_cpu, 0) != dnnl_success ||
        l.dnnl_stream_create(&l.stream, l.engine, dnnl_stream_default_flags) != dnnl_success) {
      l.missing = "oneDNN cannot create a CPU engine";
    }
    return l;
  }());
  return loaded;
}

// OpenMP's threads are those of the process that started them: a child that it forks would wait for them for
// ever.
void require_threads() {
  static std::atomic<pid_t> owner{0};
  const pid_t self = getpid();
  pid_t before = 0;
  if (owner.compare_exchange_strong(before, self) || before == self) return;
  if (library().most_threads && library().most_threads() == 1) return;
  throw TrialError("launch_failed",
                   "oneDNN ran in the process that this one was forked from, and its threads are not here: fork "
                   "before the first plan that it serves, plan without it, or set OMP_NUM_THREADS=1");
}

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  const char* outcome = status == dnnl_unimplemented   ? "unsupported"
                        : status == dnnl_out_of_memory ? "out_of_memory"
                                                       : "launch_failed";
  throw TrialError(outcome, fmt::format("oneDNN: {} gave status {}", what, static_cast<int>(status)));
}

// Owns a handle of the C interface.
template <class Handle, auto Destroy>
class Owner {
 public:
  Owner() = default;
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_) (library().*Destroy)(handle_);
  }
  Handle get() const { return handle_; }
  Handle* address() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};
using Memory = Owner<dnnl_memory_t, &Library::dnnl_memory_destroy>;
using PrimitiveDescription = Owner<dnnl_primitive_desc_t, &Library::dnnl_primitive_desc_destroy>;
using Primitive = Owner<dnnl_primitive_t, &Library::dnnl_primitive_destroy>;
using Attributes = Owner<dnnl_primitive_attr_t, &Library::dnnl_primitive_attr_destroy>;
using PostOps = Owner<dnnl_post_ops_t, &Library::dnnl_post_ops_destroy>;

Memory make_memory(const dnnl_memory_desc_t& description) {
  Memory memory;
  check(library().dnnl_memory_create(memory.address(), &description, library().engine, DNNL_MEMORY_NONE),
        "memory_create");
  return memory;
}

std::size_t size_of_memory(const dnnl_memory_desc_t& description) {
  return library().dnnl_memory_desc_get_size(&description);
}

struct Eltwise {
  dnnl_alg_kind_t kind;
  double alpha = 0, beta = 0;
};

// The post-operation of an element-wise step, if there is one.
std::optional<Eltwise> post_operation(const EpilogueStep& step) {
  const auto number = [&step](std::size_t i) { return step.numbers[i]; };
  switch (step.op) {
    case EpilogueOp::add:
      return Eltwise{dnnl_eltwise_linear, 1, number(0)};
    case EpilogueOp::sub:
      return Eltwise{dnnl_eltwise_linear, 1, -number(0)};
    case EpilogueOp::mul:
      return Eltwise{dnnl_eltwise_linear, number(0), 0};
    case EpilogueOp::div:
      return Eltwise{dnnl_eltwise_linear, 1 / number(0), 0};
    case EpilogueOp::relu:
      return Eltwise{dnnl_eltwise_relu, 0, 0};
    case EpilogueOp::leaky_relu:
      return Eltwise{dnnl_eltwise_relu, number(0), 0};
    case EpilogueOp::clamp:
      return Eltwise{dnnl_eltwise_clip, number(0), number(1)};
    case EpilogueOp::sigmoid:
      return Eltwise{dnnl_eltwise_logistic};
    case EpilogueOp::tanh:
      return Eltwise{dnnl_eltwise_tanh};
    case EpilogueOp::gelu:
      return Eltwise{dnnl_eltwise_gelu_erf};
    case EpilogueOp::silu:
      return Eltwise{dnnl_eltwise_swish, 1, 0};
    case EpilogueOp::mish:
      return Eltwise{dnnl_eltwise_mish};
    case EpilogueOp::hardswish:
      return Eltwise{dnnl_eltwise_hardswish};
    default:
      return std::nullopt;
  }
}

// The steps at the head of the epilogue that the primitive applies itself.
struct FusedSteps {
  std::vector<Eltwise> operations;
  std::size_t steps = 0;
};

// Neighbouring linear steps become one. A kind that comes back ends the list: oneDNN 2.6's brgconv gives both
// the constants of the first.
FusedSteps fuse(const Problem& problem) {
  FusedSteps fused;
  std::vector<Eltwise>& operations = fused.operations;
  for (const EpilogueStep& step : problem.epilogue) {
    const std::optional<Eltwise> next = post_operation(step);
    if (!next) break;
    const bool merges = next->kind == dnnl_eltwise_linear && !operations.empty() &&
                        operations.back().kind == dnnl_eltwise_linear;
    if (merges) {
      operations.back().alpha *= next->alpha;
      operations.back().beta = operations.back().beta * next->alpha + next->beta;
    } else if (std::any_of(operations.begin(), operations.end(),
                           [&next](const Eltwise& earlier) { return earlier.kind == next->kind; })) {
      break;
    } else {
      operations.push_back(*next);
    }
    ++fused.steps;
  }
  return fused;
}

// Dimensions as oneDNN wants them: batch, channels, then the rank's spatial ones.
std::vector<dnnl_dim_t> activation_dims(const Problem& problem, const Extents& e) {
  const std::vector<dnnl_dim_t> all = {e.d, e.h, e.w};
  std::vector<dnnl_dim_t> dims = {e.n, e.c};
  dims.insert(dims.end(), all.end() - problem.rank, all.end());
  return dims;
}

std::vector<dnnl_dim_t> spatial(const Problem& problem, const std::array<std::int64_t, 3>& values,
                                std::int64_t less) {
  std::vector<dnnl_dim_t> dims;
  for (std::size_t i = static_cast<std::size_t>(3 - problem.rank); i < 3; ++i)
    dims.push_back(values[i] - less);
  return dims;
}

dnnl_memory_desc_t describe(const std::vector<dnnl_dim_t>& dims, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t description;
  check(library().dnnl_memory_desc_init_by_tag(&description, static_cast<int>(dims.size()), dims.data(),
                                               dnnl_f32, tag),
        "memory_desc_init_by_tag");
  return description;
}

dnnl_format_tag_t plain_tag(std::size_t dimensions) {
  constexpr dnnl_format_tag_t kTags[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde, dnnl_abcdef};
  return kTags[dimensions - 1];
}

dnnl_format_tag_t channels_last_tag(int rank) {
  return rank == 1 ? dnnl_nwc : rank == 2 ? dnnl_nhwc : dnnl_ndhwc;
}

// The order in which the problem's own activations lie in memory.
dnnl_format_tag_t own_tag(const Problem& problem) {
  return problem.layout == Layout::nchw ? plain_tag(static_cast<std::size_t>(problem.rank) + 2)
                                        : channels_last_tag(problem.rank);
}

dnnl_format_tag_t working_tag(const std::string& format, const Problem& problem) {
  if (format == "any") return dnnl_format_tag_any;
  return format == "plain" ? own_tag(problem) : channels_last_tag(problem.rank);
}

// A reorder between two descriptions; none if they are equal.
class Reorder {
 public:
  Reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to) {
    if (library().dnnl_memory_desc_equal(&from, &to)) return;
    PrimitiveDescription description;
    check(library().dnnl_reorder_primitive_desc_create(description.address(), &from, library().engine, &to,
                                                       library().engine, nullptr),
          "reorder_primitive_desc_create");
    check(library().dnnl_primitive_create(primitive_.address(), description.get()), "primitive_create");
    from_ = make_memory(from);
    to_ = make_memory(to);
  }
  bool needed() const { return primitive_.get(); }
  void run(void* from, void* to) const {
    library().dnnl_memory_set_data_handle(from_.get(), from);
    library().dnnl_memory_set_data_handle(to_.get(), to);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from_.get()}, {DNNL_ARG_TO, to_.get()}};
    check(library().dnnl_primitive_execute(primitive_.get(), library().stream, 2, arguments), "reorder");
  }

 private:
  Primitive primitive_;
  Memory from_, to_;
};

class Convolution : public Executable {
 public:
  Convolution(const Problem& problem, const Configuration& configuration)
      : problem_(problem), first_own_step_(fuse(problem).steps) {
    const Library& l = library();
    describe_plain();
    const PrimitiveDescription description = create_description(configuration);
    check(l.dnnl_primitive_create(primitive_.address(), description.get()), "primitive_create");
    const auto query = [&](dnnl_query_t what) {
      return *l.dnnl_primitive_desc_query_md(description.get(), what, 0);
    };
    source_ = query(dnnl_query_src_md);
    weights_ = query(dnnl_query_weights_md);
    target_ = query(dnnl_query_dst_md);
    scratch_ = query(dnnl_query_scratchpad_md);
    reorder_source_ = std::make_unique<Reorder>(plain_source_, source_);
    reorder_weights_ = std::make_unique<Reorder>(plain_weights_, weights_);
    reorder_target_ = std::make_unique<Reorder>(target_, plain_target_);
    source_memory_ = make_memory(source_);
    weights_memory_ = make_memory(weights_);
    target_memory_ = make_memory(target_);
    scratch_memory_ = make_memory(scratch_);
    if (problem.bias) bias_memory_ = make_memory(describe({problem.k}, dnnl_a));
    lay_out_workspace();
  }

  std::size_t packed_bytes() const override {
    return reorder_weights_->needed() ? size_of_memory(weights_) : 0;
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void prepare(const Buffers& buffers, Stream) override {
    if (!reorder_weights_->needed()) return;
    require_threads();
    const std::lock_guard lock(mutex_);
    reorder_weights_->run(buffers.parameters[0], buffers.packed);
    check(library().dnnl_stream_wait(library().stream), "stream_wait");
  }

  void run(const Buffers& buffers, Stream) override {
    require_threads();
    const std::lock_guard lock(mutex_);
    const Library& l = library();
    char* workspace = static_cast<char*>(buffers.workspace);
    void* source = buffers.input;
    if (reorder_source_->needed()) {
      source = workspace + source_offset_;
      reorder_source_->run(buffers.input, source);
    }
    // Steps of our own want the plain tensor in scratch memory; without them it is the output.
    const bool own_steps = first_own_step_ < problem_.epilogue.size();
    void* plain = own_steps ? workspace + plain_offset_ : buffers.output;
    void* target = reorder_target_->needed() ? workspace + target_offset_ : plain;
    l.dnnl_memory_set_data_handle(source_memory_.get(), source);
    l.dnnl_memory_set_data_handle(weights_memory_.get(),
                                  reorder_weights_->needed() ? buffers.packed : buffers.parameters[0]);
    l.dnnl_memory_set_data_handle(target_memory_.get(), target);
    l.dnnl_memory_set_data_handle(scratch_memory_.get(), workspace + scratch_offset_);
    std::vector<dnnl_exec_arg_t> arguments = {{DNNL_ARG_SRC, source_memory_.get()},
                                              {DNNL_ARG_WEIGHTS, weights_memory_.get()},
                                              {DNNL_ARG_DST, target_memory_.get()},
                                              {DNNL_ARG_SCRATCHPAD, scratch_memory_.get()}};
    if (problem_.bias) {
      l.dnnl_memory_set_data_handle(bias_memory_.get(), buffers.parameters[1]);
      arguments.push_back({DNNL_ARG_BIAS, bias_memory_.get()});
    }
    check(l.dnnl_primitive_execute(primitive_.get(), l.stream, static_cast<int>(arguments.size()),
                                   arguments.data()),
          "convolution");
    if (reorder_target_->needed()) reorder_target_->run(target, plain);
    check(l.dnnl_stream_wait(l.stream), "stream_wait");
    if (own_steps) {
      apply_plain_epilogue(problem_, first_own_step_, buffers, static_cast<float*>(plain),
                           static_cast<float*>(buffers.output));
    }
  }

 private:
  void describe_plain() {
    const Problem& p = problem_;
    weight_dims_ = {p.k, p.c / p.groups};
    if (p.groups > 1) weight_dims_ = {p.groups, p.k / p.groups, p.c / p.groups};
    for (dnnl_dim_t extent : spatial(p, p.filter, 0)) weight_dims_.push_back(extent);
    const auto source_dims = activation_dims(p, p.input_extents()),
               target_dims = activation_dims(p, p.conv_extents());
    plain_source_ = describe(source_dims, own_tag(p));
    plain_weights_ = describe(weight_dims_, plain_tag(weight_dims_.size()));
    // The order in which our own steps want it, or the output's.
    plain_target_ = describe(target_dims, epilogue_wants_channels_first(p, first_own_step_)
                                              ? plain_tag(target_dims.size())
                                              : own_tag(p));
  }

  PrimitiveDescription create_description(const Configuration& configuration) const {
    const Library& l = library();
    const Problem& p = problem_;
    const dnnl_format_tag_t tag = working_tag(configuration.text("format"), p);
    const dnnl_memory_desc_t source = describe(activation_dims(p, p.input_extents()), tag);
    const dnnl_memory_desc_t weights = describe(weight_dims_, dnnl_format_tag_any);
    const dnnl_memory_desc_t target = describe(activation_dims(p, p.conv_extents()), tag);
    const dnnl_memory_desc_t bias = describe({p.k}, dnnl_a);
    const auto pad = spatial(p, p.pad, 0);
    const dnnl_alg_kind_t algorithm =
        configuration.text("algorithm") == "winograd" ? dnnl_convolution_winograd : dnnl_convolution_direct;
    dnnl_convolution_desc_t operation;
    check(l.dnnl_dilated_convolution_forward_desc_init(
              &operation, dnnl_forward_inference, algorithm, &source, &weights, p.bias ? &bias : nullptr,
              &target, spatial(p, p.stride, 0).data(), spatial(p, p.dilation, 1).data(), pad.data(),
              pad.data()),
          "convolution_forward_desc_init");
    Attributes attributes;
    check(l.dnnl_primitive_attr_create(attributes.address()), "primitive_attr_create");
    check(l.dnnl_primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user),
          "scratchpad mode");
    PostOps operations;
    check(l.dnnl_post_ops_create(operations.address()), "post_ops_create");
    for (const Eltwise& eltwise : fuse(p).operations) {
      check(
          l.dnnl_post_ops_append_eltwise(operations.get(), 1.0f, eltwise.kind,
                                         static_cast<float>(eltwise.alpha), static_cast<float>(eltwise.beta)),
          "post_ops_append_eltwise");
    }
    check(l.dnnl_primitive_attr_set_post_ops(attributes.get(), operations.get()), "set_post_ops");
    PrimitiveDescription description;
    check(
        l.dnnl_primitive_desc_create(description.address(), &operation, attributes.get(), l.engine, nullptr),
        "primitive_desc_create");
    return description;
  }

  void lay_out_workspace() {
    const auto reserve = [this](std::size_t bytes) {
      const std::size_t offset = workspace_bytes_;
      workspace_bytes_ += (bytes + 63) / 64 * 64;
      return offset;
    };
    if (reorder_source_->needed()) source_offset_ = reserve(size_of_memory(source_));
    if (reorder_target_->needed()) target_offset_ = reserve(size_of_memory(target_));
    if (first_own_step_ < problem_.epilogue.size()) plain_offset_ = reserve(size_of_memory(plain_target_));
    scratch_offset_ = reserve(size_of_memory(scratch_));
  }

  Problem problem_;
  std::size_t first_own_step_;
  // Memory objects carry the pointers of a run. One run uses every core, so a second may as well wait.
  std::mutex mutex_;
  std::vector<dnnl_dim_t> weight_dims_;
  dnnl_memory_desc_t plain_source_, plain_weights_, plain_target_, source_, weights_, target_, scratch_;
  Primitive primitive_;
  std::unique_ptr<Reorder> reorder_source_, reorder_weights_, reorder_target_;
  Memory source_memory_, weights_memory_, target_memory_, scratch_memory_, bias_memory_;
  std::size_t workspace_bytes_ = 0, source_offset_ = 0, target_offset_ = 0, plain_offset_ = 0,
              scratch_offset_ = 0;
};

class OnednnFamily : public KernelFamily {
 public:
  std::string_view name() const override { return "onednn"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem& problem, const DeviceInfo&) const override {
    if (!library().missing.empty()) return library().missing;
    if (problem.dtype != DType::f32) return "only f32 is offered through oneDNN";
    // It goes through the padding element by element: a million take minutes.
    constexpr std::int64_t kMostPadding = 32768;
    if (std::ranges::any_of(problem.pad, [](std::int64_t pad) { return pad > kMostPadding; }))
      return fmt::format("oneDNN is asked for a padding of at most {}", kMostPadding);
    return std::nullopt;
  }
  std::string_view space_json() const override { return vendor_spaces().front().second; }
  std::string source_hash() const override { return "onednn-5-" + library().version; }
  bool builtin() const override { return true; }
  std::unique_ptr<Executable> create_builtin(const Problem& problem, const Configuration& configuration,
                                             Device&) const override {
    return std::make_unique<Convolution>(problem, configuration);
  }
};

}  // namespace

const KernelFamily& onednn_family() {
  static const auto& family = never_destroyed(OnednnFamily());
  return family;
}

}  // namespace knobwise
