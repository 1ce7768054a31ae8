// cuDNN's entry points, loaded at run time.
#pragma once

#include <cstddef>
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
inline constexpr int kTensorOpMath = 1, kFmaMath = 3;
inline constexpr int kCrossCorrelation = 1;
inline constexpr int kImplicitGemm = 0, kImplicitPrecompGemm = 1, kGemm = 2, kFft = 4, kFftTiling = 5,
                     kWinograd = 6, kWinogradNonfused = 7;
inline constexpr int kIdentity = 5;
inline constexpr int kPropagateNan = 1;
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
  std::string problem;  ///< Why it cannot be used, in one line for people; empty if it can.
};

/// The library: the file that $KNOBWISE_CUDNN names, else libcudnn.so.9 or .8 where the loader or a CUDA
/// toolkit has it.
const CudnnLibrary& cudnn_library();

/// Throws TrialError for a failed call: "unsupported" where cuDNN says that it cannot do what was asked, else
/// "launch_failed".
void check_cudnn(int status, const char* call);

}  // namespace knobwise
