#include "kernels/vendor/cudnn.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <map>
#include <mutex>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_module.h"
#include "kernels/cuda/device_source.h"
#include "kernels/cuda/epilogue_passes.h"
#include "kernels/cuda/nvrtc.h"
#include "kernels/device.h"
#include "kernels/vendor/cudnn_engine.h"
#include "kernels/vendor/cudnn_library.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A cuDNN object that is destroyed with its owner.
template <class Handle>
class Owned {
 public:
  Owned(int (*create)(Handle*), int (*destroy)(Handle), const char* call) : destroy_(destroy) {
    check_cudnn(create(&handle_), call);
  }
  ~Owned() { destroy_(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle get() const { return handle_; }

 private:
  Handle handle_{};
  int (*destroy_)(Handle);
};

// One handle for a device, because creating one takes long; it serves one thread at a time.
struct SharedHandle {
  explicit SharedHandle(std::shared_ptr<const CudaContext> device_context)
      : context(std::move(device_context)) {
    const CudaContext::Scope scope(*context);
    check_cudnn(cudnn_library().Create(&handle), "cudnnCreate");
  }
  ~SharedHandle() {
    if (!context->alive()) return;  // cuDNN's memory went with the context
    const CudaContext::Scope scope(*context);
    cudnn_library().Destroy(handle);
  }
  SharedHandle(const SharedHandle&) = delete;
  SharedHandle& operator=(const SharedHandle&) = delete;

  std::shared_ptr<const CudaContext> context;
  std::mutex mutex;
  cudnn::Handle handle = nullptr;
};

std::shared_ptr<SharedHandle> handle_of(const std::shared_ptr<const CudaContext>& context) {
  static std::mutex mutex;
  static auto& handles = never_destroyed(std::map<const CudaContext*, std::weak_ptr<SharedHandle>>());
  const std::lock_guard lock(mutex);
  std::shared_ptr<SharedHandle> handle = handles[context.get()].lock();
  if (!handle) {
    handle = std::make_shared<SharedHandle>(context);
    handles[context.get()] = handle;
  }
  return handle;
}

int algorithm_of(const std::string& name) {
  static const auto& algorithms = never_destroyed(
      std::map<std::string, int, std::less<>>{{"implicit_gemm", cudnn::kImplicitGemm},
                                              {"implicit_precomp_gemm", cudnn::kImplicitPrecompGemm},
                                              {"gemm", cudnn::kGemm},
                                              {"fft", cudnn::kFft},
                                              {"fft_tiling", cudnn::kFftTiling},
                                              {"winograd", cudnn::kWinograd},
                                              {"winograd_nonfused", cudnn::kWinogradNonfused}});
  return algorithms.at(name);
}

// The rank in "engine_<rank>", if it is one.
std::optional<int> engine_rank_of(const std::string& algorithm) {
  constexpr std::string_view kPrefix = "engine_";
  if (!algorithm.starts_with(kPrefix)) return std::nullopt;
  return std::stoi(algorithm.substr(kPrefix.size()));
}

int dtype_of(DType dtype) {
  return dtype == DType::f32 ? cudnn::kFloat : dtype == DType::f16 ? cudnn::kHalf : cudnn::kBfloat16;
}

// The trailing dimensions of a problem as cuDNN wants them: at least two.
std::vector<int> trailing(const Problem& problem, const std::array<std::int64_t, 3>& values) {
  const std::size_t count = problem.rank == 3 ? 3 : 2;
  std::vector<int> result;
  for (std::size_t i = 3 - count; i < 3; ++i) result.push_back(static_cast<int>(values[i]));
  return result;
}

// cuDNN's description of a convolution.
class Descriptors {
 public:
  Descriptors(const Problem& problem, int format, int math_type);

  cudnn::Tensor x() const { return x_.get(); }
  cudnn::Tensor y() const { return y_.get(); }
  cudnn::Tensor bias() const { return bias_.get(); }
  cudnn::Filter w() const { return w_.get(); }
  cudnn::Convolution convolution() const { return convolution_.get(); }
  cudnn::Activation identity() const { return identity_.get(); }

 private:
  using TensorOwner = Owned<cudnn::Tensor>;
  static TensorOwner tensor() {
    return {cudnn_library().CreateTensorDescriptor, cudnn_library().DestroyTensorDescriptor,
            "cudnnCreateTensorDescriptor"};
  }
  static void set(const TensorOwner& tensor, int format, int dtype, std::int64_t n, std::int64_t c,
                  std::vector<int> spatial) {
    std::vector<int> extents = {static_cast<int>(n), static_cast<int>(c)};
    extents.insert(extents.end(), spatial.begin(), spatial.end());
    check_cudnn(cudnn_library().SetTensorNdDescriptorEx(tensor.get(), format, dtype,
                                                        static_cast<int>(extents.size()), extents.data()),
                "cudnnSetTensorNdDescriptorEx");
  }

  TensorOwner x_ = tensor(), y_ = tensor(), bias_ = tensor();
  Owned<cudnn::Filter> w_{cudnn_library().CreateFilterDescriptor, cudnn_library().DestroyFilterDescriptor,
                          "cudnnCreateFilterDescriptor"};
  Owned<cudnn::Convolution> convolution_{cudnn_library().CreateConvolutionDescriptor,
                                         cudnn_library().DestroyConvolutionDescriptor,
                                         "cudnnCreateConvolutionDescriptor"};
  Owned<cudnn::Activation> identity_{cudnn_library().CreateActivationDescriptor,
                                     cudnn_library().DestroyActivationDescriptor,
                                     "cudnnCreateActivationDescriptor"};
};

Descriptors::Descriptors(const Problem& problem, int format, int math_type) {
  const CudnnLibrary& library = cudnn_library();
  const int dtype = dtype_of(problem.dtype);
  const Extents conv = problem.conv_extents();
  set(x_, format, dtype, problem.n, problem.c, trailing(problem, problem.in));
  set(y_, format, dtype, conv.n, conv.c, trailing(problem, {conv.d, conv.h, conv.w}));
  set(bias_, format, dtype, 1, problem.k, trailing(problem, {1, 1, 1}));
  std::vector<int> filter = trailing(problem, problem.filter);
  filter.insert(filter.begin(), {static_cast<int>(problem.k), static_cast<int>(problem.c / problem.groups)});
  check_cudnn(
      library.SetFilterNdDescriptor(w_.get(), dtype, format, static_cast<int>(filter.size()), filter.data()),
      "cudnnSetFilterNdDescriptor");
  const std::vector<int> pad = trailing(problem, problem.pad), stride = trailing(problem, problem.stride),
                         dilation = trailing(problem, problem.dilation);
  check_cudnn(library.SetConvolutionNdDescriptor(convolution_.get(), static_cast<int>(pad.size()), pad.data(),
                                                 stride.data(), dilation.data(), cudnn::kCrossCorrelation,
                                                 cudnn::kFloat),
              "cudnnSetConvolutionNdDescriptor");
  check_cudnn(library.SetConvolutionGroupCount(convolution_.get(), static_cast<int>(problem.groups)),
              "cudnnSetConvolutionGroupCount");
  check_cudnn(library.SetConvolutionMathType(convolution_.get(), math_type), "cudnnSetConvolutionMathType");
  check_cudnn(library.SetActivationDescriptor(identity_.get(), cudnn::kIdentity, cudnn::kPropagateNan, 0),
              "cudnnSetActivationDescriptor");
}

CudnnConvolution convolution_of(const Problem& problem, bool nhwc) {
  const Extents conv = problem.conv_extents();
  const auto with = [](std::int64_t a, std::int64_t b, const std::vector<int>& spatial) {
    std::vector<std::int64_t> extents = {a, b};
    extents.insert(extents.end(), spatial.begin(), spatial.end());
    return extents;
  };
  const auto wide = [](const std::vector<int>& values) {
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  return {dtype_of(problem.dtype),
          nhwc,
          with(problem.n, problem.c, trailing(problem, problem.in)),
          with(problem.k, problem.c / problem.groups, trailing(problem, problem.filter)),
          with(conv.n, conv.c, trailing(problem, {conv.d, conv.h, conv.w})),
          wide(trailing(problem, problem.pad)),
          wide(trailing(problem, problem.stride)),
          wide(trailing(problem, problem.dilation))};
}

CudnnArithmetic arithmetic_of(DType dtype, std::string_view precision) {
  if (dtype != DType::f32) return CudnnArithmetic::native;
  return precision == "fp32"   ? CudnnArithmetic::fp32
         : precision == "tf32" ? CudnnArithmetic::tf32
                               : CudnnArithmetic::converted;
}

int math_type_of(CudnnArithmetic arithmetic) {
  return arithmetic == CudnnArithmetic::fp32        ? cudnn::kFmaMath
         : arithmetic == CudnnArithmetic::converted ? cudnn::kTensorOpMathAllowConversion
                                                    : cudnn::kTensorOpMath;
}

constexpr std::string_view kPackWeights =
    "extern \"C\" __global__ void kw_pack_weights(const void* weights, void* packed) { pack_weights(weights, "
    "packed); }\n";

std::string compile_passes(const std::string& source, const DeviceInfo& info) {
  return nvrtc_compile(source,
                       {"--gpu-architecture=" + nvrtc_architecture(info.compute_capability), "--std=c++17"})
      .cubin;
}

class CudnnExecutable final : public Executable {
 public:
  CudnnExecutable(const Problem& problem, const Configuration& configuration, CudaDevice& device);
  ~CudnnExecutable() override;

  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void prepare(const Buffers& buffers, Stream stream) override;
  void run(const Buffers& buffers, Stream stream) override;
  Resources resources() const override { return {}; }

 private:
  struct Step {
    CudaKernel kernel;
    Pass pass;
  };
  // Sets what convolves; the bytes of workspace that it needs.
  std::size_t choose_algorithm(const std::string& name);
  void lay_out_workspace(const PassPlan& plan);
  void convolve(const Buffers& buffers, const void* x, void* y, Stream stream);
  char* at(const Buffers& buffers, std::size_t offset) const {
    return static_cast<char*>(buffers.workspace) + offset;
  }
  void* resolve(PassTensor tensor, const Buffers& buffers) const;

  Problem problem_;
  bool nhwc_, converts_, adds_bias_;
  PassPlan plan_;
  std::shared_ptr<SharedHandle> shared_;
  CudnnArithmetic arithmetic_;
  Descriptors descriptors_;
  int algorithm_ = 0;                    // or
  std::unique_ptr<CudnnEngine> engine_;  // of the graph interface
  std::size_t library_bytes_;            // before the module: what cuDNN cannot do needs no passes
  CudaModule module_;
  CudaKernel pack_, convert_;
  std::vector<Step> steps_;
  std::size_t packed_bytes_ = 0, workspace_bytes_ = 0;
  std::size_t input_offset_ = 0, convolution_offset_ = 0, scratch_offset_[2] = {0, 0};
};

CudnnExecutable::CudnnExecutable(const Problem& problem, const Configuration& configuration,
                                 CudaDevice& device)
    : problem_(problem),
      nhwc_(configuration.text("format") == "nhwc"),
      converts_(nhwc_ != (problem.layout == Layout::nhwc)),
      // cuDNN fuses a bias without an activation with this algorithm only.
      adds_bias_(problem.bias && configuration.text("algorithm") == "implicit_precomp_gemm"),
      plan_(plan_passes(problem, PassSource{nhwc_, adds_bias_, 0, problem.dtype, 1})),
      shared_(handle_of(device.context())),
      arithmetic_(arithmetic_of(problem.dtype, configuration.text("precision"))),
      descriptors_(problem, nhwc_ ? cudnn::kNhwc : cudnn::kNchw, math_type_of(arithmetic_)),
      library_bytes_(choose_algorithm(configuration.text("algorithm"))),
      module_(device.context(), compile_passes(plan_.source + std::string(kPackWeights), device.info())) {
  const ParameterSpec weights = problem.parameters().front();
  if (nhwc_) packed_bytes_ = static_cast<std::size_t>(weights.elements()) * size_of(problem.dtype);
  pack_ = module_.kernel("kw_pack_weights", {pass_blocks(weights.elements()), 1, 1}, {kThreads, 1, 1});
  if (converts_) {
    convert_ = module_.kernel("kw_convert_input", {pass_blocks(problem.input_extents().elements()), 1, 1},
                              {kThreads, 1, 1});
  }
  for (const Pass& pass : plan_.passes) {
    steps_.push_back({module_.kernel(pass.function, {pass.blocks, 1, 1}, {pass.threads, 1, 1}), pass});
  }
  lay_out_workspace(plan_);
}

CudnnExecutable::~CudnnExecutable() {
  if (!engine_) return;
  if (!shared_->context->alive()) {
    static_cast<void>(engine_.release());  // its code went with the context
    return;
  }
  const CudaContext::Scope scope(*shared_->context);
  const std::lock_guard lock(shared_->mutex);
  engine_.reset();
}

std::size_t CudnnExecutable::choose_algorithm(const std::string& name) {
  const CudaContext::Scope scope(*shared_->context);
  const std::lock_guard lock(shared_->mutex);
  if (const auto rank = engine_rank_of(name)) {
    engine_ =
        std::make_unique<CudnnEngine>(shared_->handle, convolution_of(problem_, nhwc_), arithmetic_, *rank);
    return engine_->workspace_bytes();
  }
  algorithm_ = algorithm_of(name);
  std::size_t bytes = 0;
  check_cudnn(cudnn_library().GetConvolutionForwardWorkspaceSize(shared_->handle, descriptors_.x(),
                                                                 descriptors_.w(), descriptors_.convolution(),
                                                                 descriptors_.y(), algorithm_, &bytes),
              "cudnnGetConvolutionForwardWorkspaceSize");
  return bytes;
}

void CudnnExecutable::lay_out_workspace(const PassPlan& plan) {
  const std::size_t element = size_of(problem_.dtype);
  std::size_t end = aligned(library_bytes_);
  const auto take = [&end](std::size_t bytes) {
    const std::size_t begin = end;
    end += aligned(bytes);
    return begin;
  };
  if (converts_)
    input_offset_ = take(static_cast<std::size_t>(problem_.input_extents().elements()) * element);
  if (!plan.in_place)
    convolution_offset_ = take(static_cast<std::size_t>(problem_.conv_extents().elements()) * element);
  for (int i = 0; i < 2; ++i) scratch_offset_[i] = take(plan.scratch_bytes[i]);
  workspace_bytes_ = end;
}

void* CudnnExecutable::resolve(PassTensor tensor, const Buffers& buffers) const {
  switch (tensor) {
    case PassTensor::source:
      return plan_.in_place ? buffers.output : at(buffers, convolution_offset_);
    case PassTensor::scratch0:
      return at(buffers, scratch_offset_[0]);
    case PassTensor::scratch1:
      return at(buffers, scratch_offset_[1]);
    case PassTensor::output:
      return buffers.output;
  }
  return nullptr;
}

void CudnnExecutable::prepare(const Buffers& buffers, Stream stream) {
  if (!nhwc_) return;
  const CudaContext::Scope scope(module_.context());
  void* weights = buffers.parameters.at(0);
  void* packed = buffers.packed;
  void* arguments[] = {&weights, &packed};
  module_.launch(pack_, arguments, stream);
}

void CudnnExecutable::convolve(const Buffers& buffers, const void* x, void* y, Stream stream) {
  const CudnnLibrary& library = cudnn_library();
  const void* weights = nhwc_ ? buffers.packed : buffers.parameters.at(0);
  const float one = 1, zero = 0;
  const std::lock_guard lock(shared_->mutex);
  const cudnn::Handle handle = shared_->handle;
  check_cudnn(library.SetStream(handle, stream), "cudnnSetStream");
  if (engine_) {
    engine_->run(x, weights, y, buffers.workspace);
  } else if (adds_bias_) {
    check_cudnn(
        library.ConvolutionBiasActivationForward(
            handle, &one, descriptors_.x(), x, descriptors_.w(), weights, descriptors_.convolution(),
            algorithm_, buffers.workspace, library_bytes_, &zero, descriptors_.y(), y, descriptors_.bias(),
            buffers.parameters.at(1), descriptors_.identity(), descriptors_.y(), y),
        "cudnnConvolutionBiasActivationForward");
  } else {
    check_cudnn(library.ConvolutionForward(handle, &one, descriptors_.x(), x, descriptors_.w(), weights,
                                           descriptors_.convolution(), algorithm_, buffers.workspace,
                                           library_bytes_, &zero, descriptors_.y(), y),
                "cudnnConvolutionForward");
  }
}

void CudnnExecutable::run(const Buffers& buffers, Stream stream) {
  const CudaContext::Scope scope(module_.context());
  const void* x = buffers.input;
  if (converts_) {
    void* converted = at(buffers, input_offset_);
    void* arguments[] = {&x, &converted};
    module_.launch(convert_, arguments, stream);
    x = converted;
  }
  convolve(buffers, x, resolve(PassTensor::source, buffers), stream);
  for (const Step& step : steps_) {
    void* in = resolve(step.pass.in, buffers);
    void* out = resolve(step.pass.out, buffers);
    std::array<void*, kMostPassParameters + 2> arguments = {&in, &out};
    for (std::size_t i = 0; i < buffers.parameters.size(); ++i)
      arguments[i + 2] = const_cast<void**>(&buffers.parameters[i]);
    module_.launch(step.kernel, arguments.data(), stream);
  }
}

class CudnnFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "cudnn"; }
  Backend backend() const override { return Backend::cuda; }

  std::optional<std::string> unsupported_reason(const Problem& problem, const DeviceInfo&) const override {
    if (!cudnn_library().problem.empty()) return cudnn_library().problem;
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    for (std::int64_t elements : {problem.input_extents().elements(), problem.conv_extents().elements()}) {
      if (elements > kMost) return "cuDNN's tensors end at 2^31 - 1 elements";
    }
    if (problem.parameters().size() > kMostPassParameters) {
      return fmt::format("at most {} parameters are passed to the epilogue", kMostPassParameters);
    }
    return {};
  }

  std::string_view space_json() const override {
    static const auto& text = never_destroyed(std::string(device_source("cudnn.json")));
    return text;
  }

  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo&) const override {
    return {{"dtype", std::string(to_string(problem.dtype))},
            {"layout", std::string(to_string(problem.layout))}};
  }

  std::string source_hash() const override {
    const std::size_t version = cudnn_library().problem.empty() ? cudnn_library().GetVersion() : 0;
    return text_digest({"1", fmt::format("{}", version), space_json()}, {"epilogue_passes.cuh"});
  }

  bool builtin() const override { return true; }

  std::unique_ptr<Executable> create_builtin(const Problem& problem, const Configuration& configuration,
                                             Device& device) const override {
    auto* cuda = dynamic_cast<CudaDevice*>(&device);
    if (!cuda) throw TrialError("unsupported", "cuDNN needs a CUDA device");
    return std::make_unique<CudnnExecutable>(problem, configuration, *cuda);
  }
};

}  // namespace

const KernelFamily& cudnn_family() {
  static const auto& family = never_destroyed(CudnnFamily());
  return family;
}

}  // namespace knobwise
