// cuDNN's entry points, loaded at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace knobwise {

// The part of cuDNN's C interface that is used here, declared so that its headers are not needed to build:
// handles and descriptors are opaque pointers, enumerations are ints. The values are the same in every
// version since 8.0; cudnn_library.cpp checks them against the headers where those are found.
namespace cudnn {
using Handle = void*;
using Tensor = void*;
using Filter = void*;
using Convolution = void*;
using Activation = void*;
inline constexpr int kSuccess = 0;
inline constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
inline constexpr int kNchw = 0, kNhwc = 1;
inline constexpr int kTensorOpMath = 1, kTensorOpMathAllowConversion = 2, kFmaMath = 3;
inline constexpr int kCrossCorrelation = 1;
inline constexpr int kImplicitGemm = 0, kImplicitPrecompGemm = 1, kGemm = 2, kFft = 4, kFftTiling = 5,
                     kWinograd = 6, kWinogradNonfused = 7;
inline constexpr int kIdentity = 5;
inline constexpr int kPropagateNan = 1;

// Of the graph interface.
enum class DescriptorType {
  convolution = 1,
  engine = 2,
  engine_config = 3,
  engine_heuristic = 4,
  execution_plan = 5,
  convolution_forward = 10,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17
};
enum class AttributeType {
  handle = 0,
  data_type = 1,
  int64 = 3,
  float32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  numerical_note = 11,
  descriptor = 15
};
enum class Attribute {
  convolution_compute_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_filter_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristic_mode = 200,
  heuristic_graph = 201,
  heuristic_results = 202,
  config_engine = 300,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace_size = 402,
  forward_alpha = 700,
  forward_beta = 701,
  forward_convolution = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  graph_handle = 800,
  graph_operations = 801,
  tensor_byte_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_unique_id = 906,
  pack_unique_ids = 1000,
  pack_data_pointers = 1001,
  pack_workspace = 1003,
  engine_global_index = 1301,
  engine_numerical_note = 1303
};
inline constexpr int kHeuristicFallback = 2, kHeuristicA = 3;
inline constexpr int kNoteTensorCore = 0, kNoteDownConverts = 1, kNoteReducedSums = 2,
                     kNoteNondeterministic = 4;
}  // namespace cudnn

/// The library's functions under their names without the prefix. Immutable; thread-safe as cuDNN is (a handle
/// serves one thread at a time).
struct CudnnLibrary {
  std::size_t (*GetVersion)() = nullptr;
  const char* (*GetErrorString)(int status) = nullptr;
  int (*Create)(cudnn::Handle*) = nullptr;
  int (*Destroy)(cudnn::Handle) = nullptr;
  int (*SetStream)(cudnn::Handle, void* stream) = nullptr;
  int (*CreateTensorDescriptor)(cudnn::Tensor*) = nullptr;
  int (*DestroyTensorDescriptor)(cudnn::Tensor) = nullptr;
  int (*SetTensorNdDescriptorEx)(cudnn::Tensor, int format, int dtype, int rank,
                                 const int* extents) = nullptr;
  int (*CreateFilterDescriptor)(cudnn::Filter*) = nullptr;
  int (*DestroyFilterDescriptor)(cudnn::Filter) = nullptr;
  int (*SetFilterNdDescriptor)(cudnn::Filter, int dtype, int format, int rank, const int* extents) = nullptr;
  int (*CreateConvolutionDescriptor)(cudnn::Convolution*) = nullptr;
  int (*DestroyConvolutionDescriptor)(cudnn::Convolution) = nullptr;
  int (*SetConvolutionNdDescriptor)(cudnn::Convolution, int rank, const int* pad, const int* stride,
                                    const int* dilation, int mode, int compute_dtype) = nullptr;
  int (*SetConvolutionGroupCount)(cudnn::Convolution, int groups) = nullptr;
  int (*SetConvolutionMathType)(cudnn::Convolution, int math) = nullptr;
  int (*CreateActivationDescriptor)(cudnn::Activation*) = nullptr;
  int (*DestroyActivationDescriptor)(cudnn::Activation) = nullptr;
  int (*SetActivationDescriptor)(cudnn::Activation, int mode, int nan, double coefficient) = nullptr;
  int (*GetConvolutionForwardWorkspaceSize)(cudnn::Handle, cudnn::Tensor, cudnn::Filter, cudnn::Convolution,
                                            cudnn::Tensor, int algorithm, std::size_t* bytes) = nullptr;
  int (*ConvolutionForward)(cudnn::Handle, const void* alpha, cudnn::Tensor, const void* x, cudnn::Filter,
                            const void* w, cudnn::Convolution, int algorithm, void* workspace,
                            std::size_t bytes, const void* beta, cudnn::Tensor, void* y) = nullptr;
  int (*ConvolutionBiasActivationForward)(cudnn::Handle, const void* alpha1, cudnn::Tensor, const void* x,
                                          cudnn::Filter, const void* w, cudnn::Convolution, int algorithm,
                                          void* workspace, std::size_t bytes, const void* alpha2,
                                          cudnn::Tensor, const void* z, cudnn::Tensor bias_descriptor,
                                          const void* bias, cudnn::Activation, cudnn::Tensor,
                                          void* y) = nullptr;
  int (*BackendCreateDescriptor)(int type, void** descriptor) = nullptr;
  int (*BackendDestroyDescriptor)(void* descriptor) = nullptr;
  int (*BackendSetAttribute)(void* descriptor, int name, int type, std::int64_t count,
                             const void* values) = nullptr;
  int (*BackendGetAttribute)(const void* descriptor, int name, int type, std::int64_t room,
                             std::int64_t* count, void* values) = nullptr;
  int (*BackendFinalize)(void* descriptor) = nullptr;
  int (*BackendExecute)(cudnn::Handle, void* plan, void* variant_pack) = nullptr;
  std::string problem;  ///< Why it cannot be used, in one line for people; empty if it can.
};

/// The library: the file that $KNOBWISE_CUDNN names, else libcudnn.so.9 or .8 where the loader or a CUDA
/// toolkit has it.
const CudnnLibrary& cudnn_library();

/// Throws TrialError for a failed call: "unsupported" where cuDNN says that it cannot do what was asked, else
/// "launch_failed".
void check_cudnn(int status, const char* call);

}  // namespace knobwise
