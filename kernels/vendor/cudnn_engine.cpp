#include "kernels/vendor/cudnn_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "kernels/device.h"

namespace knobwise {
namespace {

using cudnn::Attribute;
using cudnn::AttributeType;
using cudnn::DescriptorType;
using Descriptor = std::shared_ptr<void>;

constexpr std::int64_t kUidX = 1, kUidW = 2, kUidY = 3;
constexpr std::int64_t kAlignment = 16;
/// Room for the notes of an engine; versions 8 and 9 know fewer than 16.
constexpr std::int64_t kMostNotes = 64;

Descriptor make(DescriptorType type) {
  void* descriptor = nullptr;
  check_cudnn(cudnn_library().BackendCreateDescriptor(static_cast<int>(type), &descriptor),
              "cudnnBackendCreateDescriptor");
  return {descriptor, [](void* made) { cudnn_library().BackendDestroyDescriptor(made); }};
}

void set(const Descriptor& descriptor, Attribute name, AttributeType type, std::int64_t count,
         const void* values) {
  check_cudnn(cudnn_library().BackendSetAttribute(descriptor.get(), static_cast<int>(name),
                                                  static_cast<int>(type), count, values),
              "cudnnBackendSetAttribute");
}
void set(const Descriptor& descriptor, Attribute name, const std::vector<std::int64_t>& values) {
  set(descriptor, name, AttributeType::int64, static_cast<std::int64_t>(values.size()), values.data());
}
void set(const Descriptor& descriptor, Attribute name, std::int64_t value) {
  set(descriptor, name, AttributeType::int64, 1, &value);
}
void set(const Descriptor& descriptor, Attribute name, const Descriptor& value) {
  void* const raw = value.get();
  set(descriptor, name, AttributeType::descriptor, 1, &raw);
}
void set(const Descriptor& descriptor, Attribute name, AttributeType type, int value) {
  set(descriptor, name, type, 1, &value);
}

void finalize(const Descriptor& descriptor) {
  check_cudnn(cudnn_library().BackendFinalize(descriptor.get()), "cudnnBackendFinalize");
}

/// Gives `count` elements of one type; the status.
int ask(const Descriptor& descriptor, Attribute name, AttributeType type, std::int64_t room,
        std::int64_t& count, void* values) {
  return cudnn_library().BackendGetAttribute(descriptor.get(), static_cast<int>(name), static_cast<int>(type),
                                             room, &count, values);
}

/// The one element that there is.
void get(const Descriptor& descriptor, Attribute name, AttributeType type, void* value) {
  std::int64_t count = 0;
  check_cudnn(ask(descriptor, name, type, 1, count, value), "cudnnBackendGetAttribute");
}

/// How many elements there are; none where cuDNN has no answer.
std::int64_t find(const Descriptor& descriptor, Attribute name, AttributeType type, std::int64_t room,
                  void* values) {
  std::int64_t count = 0;
  return ask(descriptor, name, type, room, count, values) == cudnn::kSuccess ? count : 0;
}

/// Packed, in the order n, c, spatial; channels last: n, spatial, c.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& extents, bool nhwc) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  if (nhwc) strides[1] = stride, stride *= extents[1];
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (nhwc && i == 1) continue;
    strides[i] = stride, stride *= extents[i];
  }
  return strides;
}

Descriptor tensor(std::int64_t uid, const CudnnConvolution& convolution,
                  const std::vector<std::int64_t>& extents) {
  const Descriptor made = make(DescriptorType::tensor);
  set(made, Attribute::tensor_data_type, AttributeType::data_type, convolution.dtype);
  set(made, Attribute::tensor_dimensions, extents);
  set(made, Attribute::tensor_strides, strides_of(extents, convolution.nhwc));
  set(made, Attribute::tensor_unique_id, uid);
  set(made, Attribute::tensor_byte_alignment, kAlignment);
  finalize(made);
  return made;
}

Descriptor operation(const CudnnConvolution& convolution, std::vector<Descriptor>& parts) {
  const Descriptor how = make(DescriptorType::convolution);
  set(how, Attribute::convolution_compute_type, AttributeType::data_type, cudnn::kFloat);
  set(how, Attribute::convolution_mode, AttributeType::convolution_mode, cudnn::kCrossCorrelation);
  set(how, Attribute::convolution_spatial_dims, static_cast<std::int64_t>(convolution.pad.size()));
  set(how, Attribute::convolution_pre_paddings, convolution.pad);
  set(how, Attribute::convolution_post_paddings, convolution.pad);
  set(how, Attribute::convolution_filter_strides, convolution.stride);
  set(how, Attribute::convolution_dilations, convolution.dilation);
  finalize(how);
  const Descriptor x = tensor(kUidX, convolution, convolution.x),
                   w = tensor(kUidW, convolution, convolution.w),
                   y = tensor(kUidY, convolution, convolution.y);
  const Descriptor made = make(DescriptorType::convolution_forward);
  const float one = 1, zero = 0;
  set(made, Attribute::forward_alpha, AttributeType::float32, 1, &one);
  set(made, Attribute::forward_beta, AttributeType::float32, 1, &zero);
  set(made, Attribute::forward_convolution, how);
  set(made, Attribute::forward_x, x);
  set(made, Attribute::forward_w, w);
  set(made, Attribute::forward_y, y);
  finalize(made);
  parts.insert(parts.end(), {how, x, w, y, made});
  return made;
}

/// The engine configurations that a mode of the heuristics proposes, the best first.
std::vector<Descriptor> proposals(const Descriptor& graph, int mode) {
  const Descriptor heuristic = make(DescriptorType::engine_heuristic);
  set(heuristic, Attribute::heuristic_graph, graph);
  set(heuristic, Attribute::heuristic_mode, AttributeType::heuristic_mode, mode);
  if (cudnn_library().BackendFinalize(heuristic.get()) != cudnn::kSuccess) return {};
  const auto results = [&](std::int64_t room, void* values) {
    return find(heuristic, Attribute::heuristic_results, AttributeType::descriptor, room, values);
  };
  std::vector<Descriptor> found;
  std::vector<void*> raw;
  for (std::int64_t i = results(0, nullptr); i > 0; --i)
    raw.push_back(found.emplace_back(make(DescriptorType::engine_config)).get());
  const auto room = static_cast<std::int64_t>(raw.size());
  found.resize(static_cast<std::size_t>(room == 0 ? 0 : std::min(room, results(room, raw.data()))));
  return found;
}

Descriptor engine_of(const Descriptor& config) {
  const Descriptor engine = make(DescriptorType::engine);
  void* raw = engine.get();
  get(config, Attribute::config_engine, AttributeType::descriptor, &raw);
  return engine;
}

bool suits(const Descriptor& engine, CudnnArithmetic arithmetic) {
  std::array<int, kMostNotes> notes{};
  const std::int64_t count =
      std::min(kMostNotes, find(engine, Attribute::engine_numerical_note, AttributeType::numerical_note,
                                kMostNotes, notes.data()));
  const auto has = [&](int note) {
    return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
  };
  if (has(cudnn::kNoteReducedSums) || has(cudnn::kNoteNondeterministic)) return false;
  if (has(cudnn::kNoteDownConverts)) return arithmetic == CudnnArithmetic::converted;
  return arithmetic == CudnnArithmetic::native ||
         arithmetic == (has(cudnn::kNoteTensorCore) ? CudnnArithmetic::tf32 : CudnnArithmetic::fp32);
}

/// The suitable engine configurations: those of mode A, then fallbacks with other engines.
std::vector<Descriptor> suitable(const Descriptor& graph, CudnnArithmetic arithmetic) {
  std::vector<Descriptor> found;
  std::set<std::int64_t> proposed;
  for (const int mode : {cudnn::kHeuristicA, cudnn::kHeuristicFallback}) {
    const std::set<std::int64_t> before = proposed;
    for (Descriptor& config : proposals(graph, mode)) {
      const Descriptor engine = engine_of(config);
      std::int64_t index = -1;
      get(engine, Attribute::engine_global_index, AttributeType::int64, &index);
      proposed.insert(index);
      if (!before.contains(index) && suits(engine, arithmetic)) found.push_back(std::move(config));
    }
  }
  return found;
}

}  // namespace

CudnnEngine::CudnnEngine(cudnn::Handle handle, const CudnnConvolution& convolution,
                         CudnnArithmetic arithmetic, int rank)
    : handle_(handle) {
  const Descriptor graph = make(DescriptorType::operation_graph);
  void* const operations[] = {operation(convolution, parts_).get()};
  set(graph, Attribute::graph_operations, AttributeType::descriptor, 1, operations);
  set(graph, Attribute::graph_handle, AttributeType::handle, 1, &handle_);
  finalize(graph);
  const std::vector<Descriptor> configs = suitable(graph, arithmetic);
  if (static_cast<std::size_t>(rank) >= configs.size())
    throw TrialError("unsupported",
                     fmt::format("cuDNN proposes {} suitable engine configurations", configs.size()));
  const Descriptor& config = configs[static_cast<std::size_t>(rank)];
  plan_ = make(DescriptorType::execution_plan);
  set(plan_, Attribute::plan_handle, AttributeType::handle, 1, &handle_);
  set(plan_, Attribute::plan_engine_config, config);
  finalize(plan_);
  std::int64_t bytes = 0;
  get(plan_, Attribute::plan_workspace_size, AttributeType::int64, &bytes);
  workspace_bytes_ = static_cast<std::size_t>(bytes);
  parts_.insert(parts_.end(), {graph, config});
}

void CudnnEngine::run(const void* x, const void* w, void* y, void* workspace) {
  const std::array<const void*, 4> pointers{x, w, y, workspace};
  if (!pack_ || pointers != packed_) {
    const std::int64_t uids[] = {kUidX, kUidW, kUidY};
    const Descriptor pack = make(DescriptorType::variant_pack);
    set(pack, Attribute::pack_data_pointers, AttributeType::pointer, 3, pointers.data());
    set(pack, Attribute::pack_unique_ids, AttributeType::int64, 3, uids);
    set(pack, Attribute::pack_workspace, AttributeType::pointer, 1, &workspace);
    finalize(pack);
    pack_ = pack;
    packed_ = pointers;
  }
  check_cudnn(cudnn_library().BackendExecute(handle_, plan_.get(), pack_.get()), "cudnnBackendExecute");
}

}  // namespace knobwise
