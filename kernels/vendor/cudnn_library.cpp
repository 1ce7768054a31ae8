#include "kernels/vendor/cudnn_library.h"

#include <fmt/format.h>

#include <cstdlib>

#include "kernels/cuda/shared_library.h"
#include "kernels/device.h"
#include "search_spaces/never_destroyed.h"

#if __has_include(<cudnn.h>) && __has_include(<cuda_runtime_api.h>)
#include <cudnn.h>
namespace knobwise {
static_assert(cudnn::kSuccess == CUDNN_STATUS_SUCCESS);
static_assert(cudnn::kFloat == CUDNN_DATA_FLOAT && cudnn::kHalf == CUDNN_DATA_HALF);
static_assert(cudnn::kBfloat16 == CUDNN_DATA_BFLOAT16);
static_assert(cudnn::kNchw == CUDNN_TENSOR_NCHW && cudnn::kNhwc == CUDNN_TENSOR_NHWC);
static_assert(cudnn::kTensorOpMath == CUDNN_TENSOR_OP_MATH && cudnn::kFmaMath == CUDNN_FMA_MATH);
static_assert(cudnn::kTensorOpMathAllowConversion == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
static_assert(cudnn::kCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(cudnn::kImplicitGemm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
static_assert(cudnn::kImplicitPrecompGemm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
static_assert(cudnn::kGemm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM &&
              cudnn::kFft == CUDNN_CONVOLUTION_FWD_ALGO_FFT);
static_assert(cudnn::kFftTiling == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING);
static_assert(cudnn::kWinograd == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
static_assert(cudnn::kWinogradNonfused == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED);
#define KW_SAME(ours, theirs) static_assert(static_cast<int>(cudnn::ours) == static_cast<int>(theirs));
KW_SAME(DescriptorType::convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
KW_SAME(DescriptorType::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
KW_SAME(DescriptorType::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
KW_SAME(DescriptorType::engine_heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
KW_SAME(DescriptorType::execution_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
KW_SAME(DescriptorType::convolution_forward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
KW_SAME(DescriptorType::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
KW_SAME(DescriptorType::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
KW_SAME(DescriptorType::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
KW_SAME(AttributeType::handle, CUDNN_TYPE_HANDLE)
KW_SAME(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE)
KW_SAME(AttributeType::int64, CUDNN_TYPE_INT64)
KW_SAME(AttributeType::float32, CUDNN_TYPE_FLOAT)
KW_SAME(AttributeType::pointer, CUDNN_TYPE_VOID_PTR)
KW_SAME(AttributeType::convolution_mode, CUDNN_TYPE_CONVOLUTION_MODE)
KW_SAME(AttributeType::heuristic_mode, CUDNN_TYPE_HEUR_MODE)
KW_SAME(AttributeType::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE)
KW_SAME(AttributeType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
KW_SAME(Attribute::convolution_compute_type, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
KW_SAME(Attribute::convolution_mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE)
KW_SAME(Attribute::convolution_dilations, CUDNN_ATTR_CONVOLUTION_DILATIONS)
KW_SAME(Attribute::convolution_filter_strides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)
KW_SAME(Attribute::convolution_post_paddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)
KW_SAME(Attribute::convolution_pre_paddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)
KW_SAME(Attribute::convolution_spatial_dims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)
KW_SAME(Attribute::heuristic_mode, CUDNN_ATTR_ENGINEHEUR_MODE)
KW_SAME(Attribute::heuristic_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
KW_SAME(Attribute::heuristic_results, CUDNN_ATTR_ENGINEHEUR_RESULTS)
KW_SAME(Attribute::config_engine, CUDNN_ATTR_ENGINECFG_ENGINE)
KW_SAME(Attribute::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
KW_SAME(Attribute::plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
KW_SAME(Attribute::plan_workspace_size, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
KW_SAME(Attribute::forward_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)
KW_SAME(Attribute::forward_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)
KW_SAME(Attribute::forward_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC)
KW_SAME(Attribute::forward_w, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)
KW_SAME(Attribute::forward_x, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)
KW_SAME(Attribute::forward_y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)
KW_SAME(Attribute::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
KW_SAME(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS)
KW_SAME(Attribute::tensor_byte_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
KW_SAME(Attribute::tensor_data_type, CUDNN_ATTR_TENSOR_DATA_TYPE)
KW_SAME(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS)
KW_SAME(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES)
KW_SAME(Attribute::tensor_unique_id, CUDNN_ATTR_TENSOR_UNIQUE_ID)
KW_SAME(Attribute::pack_unique_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
KW_SAME(Attribute::pack_data_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
KW_SAME(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
KW_SAME(Attribute::engine_global_index, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
KW_SAME(Attribute::engine_numerical_note, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
KW_SAME(kHeuristicA, CUDNN_HEUR_MODE_A)
KW_SAME(kHeuristicFallback, CUDNN_HEUR_MODE_FALLBACK)
KW_SAME(kNoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
KW_SAME(kNoteDownConverts, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)
KW_SAME(kNoteReducedSums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
KW_SAME(kNoteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
#undef KW_SAME
static_assert(cudnn::kIdentity == CUDNN_ACTIVATION_IDENTITY && cudnn::kPropagateNan == CUDNN_PROPAGATE_NAN);
}  // namespace knobwise
#endif

namespace knobwise {
namespace {

template <class Function>
void resolve(const SharedLibrary& library, Function& call, const char* symbol, std::string& problem) {
  call = library.find<Function>(symbol);
  if (!call && problem.empty()) problem = fmt::format("cuDNN cannot be used: it has no {}", symbol);
}

CudnnLibrary load() {
  CudnnLibrary calls;
  std::vector<std::string> names = {"libcudnn.so.9", "libcudnn.so.8"};
  const char* chosen = std::getenv("KNOBWISE_CUDNN");
  if (chosen && *chosen) names = {chosen};
  const SharedLibrary library(names, cuda_library_folders());
  if (!library) {
    calls.problem = fmt::format("no cuDNN: {}; set KNOBWISE_CUDNN to the library's file", library.error());
    return calls;
  }
#define KW_RESOLVE(name) resolve(library, calls.name, "cudnn" #name, calls.problem);
  KW_RESOLVE(GetVersion)
  KW_RESOLVE(GetErrorString)
  KW_RESOLVE(Create)
  KW_RESOLVE(Destroy)
  KW_RESOLVE(SetStream)
  KW_RESOLVE(CreateTensorDescriptor)
  KW_RESOLVE(DestroyTensorDescriptor)
  KW_RESOLVE(SetTensorNdDescriptorEx)
  KW_RESOLVE(CreateFilterDescriptor)
  KW_RESOLVE(DestroyFilterDescriptor)
  KW_RESOLVE(SetFilterNdDescriptor)
  KW_RESOLVE(CreateConvolutionDescriptor)
  KW_RESOLVE(DestroyConvolutionDescriptor)
  KW_RESOLVE(SetConvolutionNdDescriptor)
  KW_RESOLVE(SetConvolutionGroupCount)
  KW_RESOLVE(SetConvolutionMathType)
  KW_RESOLVE(CreateActivationDescriptor)
  KW_RESOLVE(DestroyActivationDescriptor)
  KW_RESOLVE(SetActivationDescriptor)
  KW_RESOLVE(GetConvolutionForwardWorkspaceSize)
  KW_RESOLVE(ConvolutionForward)
  KW_RESOLVE(ConvolutionBiasActivationForward)
  KW_RESOLVE(BackendCreateDescriptor)
  KW_RESOLVE(BackendDestroyDescriptor)
  KW_RESOLVE(BackendSetAttribute)
  KW_RESOLVE(BackendGetAttribute)
  KW_RESOLVE(BackendFinalize)
  KW_RESOLVE(BackendExecute)
#undef KW_RESOLVE
  return calls;
}

// CUDNN_STATUS_NOT_SUPPORTED and its refinements in version 9, and its value in version 8.
bool means_unsupported(int status) {
  return (status >= 3000 && status < 4000) || status == 9;
}

}  // namespace

const CudnnLibrary& cudnn_library() {
  static const auto& library = never_destroyed(load());
  return library;
}

void check_cudnn(int status, const char* call) {
  if (status == cudnn::kSuccess) return;
  throw TrialError(means_unsupported(status) ? "unsupported" : "launch_failed",
                   fmt::format("{}: {}", call, cudnn_library().GetErrorString(status)));
}

}  // namespace knobwise
