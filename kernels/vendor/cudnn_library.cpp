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
static_assert(static_cast<int>(cudnn::DescriptorType::tensor) == CUDNN_BACKEND_TENSOR_DESCRIPTOR);
static_assert(static_cast<int>(cudnn::DescriptorType::convolution_forward) ==
              CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
static_assert(static_cast<int>(cudnn::AttributeType::descriptor) == CUDNN_TYPE_BACKEND_DESCRIPTOR);
static_assert(static_cast<int>(cudnn::AttributeType::numerical_note) == CUDNN_TYPE_NUMERICAL_NOTE);
static_assert(static_cast<int>(cudnn::Attribute::engine_numerical_note) == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
static_assert(static_cast<int>(cudnn::Attribute::pack_workspace) == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(cudnn::kHeuristicA == CUDNN_HEUR_MODE_A &&
              cudnn::kHeuristicFallback == CUDNN_HEUR_MODE_FALLBACK);
static_assert(cudnn::kNoteDownConverts == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
static_assert(cudnn::kNoteReducedSums == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
static_assert(cudnn::kNoteNondeterministic == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
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
