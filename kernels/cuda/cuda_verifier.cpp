#include "kernels/cuda/cuda_verifier.h"

#include <algorithm>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/error_metrics.h"
#include "kernels/cuda/reference_family.h"

namespace knobwise {
namespace {

// Three distributions of one problem are in use at a time.
constexpr std::size_t kMostKept = 3;
// Parts of a large problem are up to two problems.
constexpr std::size_t kMostKernels = 4;

char* offset(void* base, std::int64_t elements, DType dtype) {
  return static_cast<char*>(base) + elements * static_cast<std::int64_t>(size_of(dtype));
}

// Whether a parameter has a value for every sample; only residuals do.
bool per_sample(const ParameterSpec& parameter) {
  return parameter.name.starts_with("residual");
}

// The part of the buffers that belongs to `sample` and those after it.
Buffers from_sample(const Problem& problem, const Buffers& buffers, std::int64_t sample) {
  Buffers part = buffers;
  part.input =
      offset(buffers.input, sample * (problem.input_extents().elements() / problem.n), problem.dtype);
  part.output =
      offset(buffers.output, sample * (problem.output_extents().elements() / problem.n), problem.dtype);
  const std::vector<ParameterSpec> specs = problem.parameters();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!per_sample(specs[i])) continue;
    part.parameters[i] =
        offset(buffers.parameters[i], sample * (specs[i].elements() / problem.n), problem.dtype);
  }
  return part;
}

}  // namespace

struct CudaVerifier::Kept {
  std::string key;
  std::unique_ptr<DeviceBuffer> reference;
};

CudaVerifier::CudaVerifier(Device& device, CudaTools& tools) : device_(device), tools_(tools) {}

CudaVerifier::~CudaVerifier() = default;

void CudaVerifier::forget() {
  kept_.clear();
}

// An eighth of the memory: the problem's own tensors come first.
std::int64_t CudaVerifier::budget_bytes() const {
  return device_.info().memory_bytes / 8;
}

std::string CudaVerifier::key_of(const Problem& problem, const Buffers& buffers) {
  std::string key = problem.to_string();
  const auto add = [&](const void* data, std::int64_t elements) {
    key += '#' + std::to_string(tools_.digest(data, problem.dtype, elements));
  };
  add(buffers.input, problem.input_extents().elements());
  const std::vector<ParameterSpec> specs = problem.parameters();
  for (std::size_t i = 0; i < specs.size(); ++i) add(buffers.parameters[i], specs[i].elements());
  return key;
}

const double* CudaVerifier::find(const std::string& key) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return static_cast<const double*>(kept_.front().reference->data());
}

const double* CudaVerifier::keep(const std::string& key, const Problem& problem, const Buffers& buffers) {
  const std::int64_t bytes = problem.output_extents().elements() * 8;
  std::int64_t total = bytes;
  for (const Kept& kept : kept_) total += static_cast<std::int64_t>(kept.reference->bytes());
  while (!kept_.empty() && (kept_.size() >= kMostKept || total > budget_bytes())) {
    total -= static_cast<std::int64_t>(kept_.back().reference->bytes());
    kept_.pop_back();
  }
  auto reference = device_.allocate(static_cast<std::size_t>(bytes), "the float64 reference");
  compute(problem, buffers, reference->data());
  kept_.push_front({key, std::move(reference)});
  return static_cast<const double*>(kept_.front().reference->data());
}

Executable& CudaVerifier::reference_of(const Problem& problem) {
  const std::string line = problem.to_string();
  if (references_.size() >= kMostKernels && !references_.contains(line)) references_.clear();
  std::unique_ptr<Executable>& executable = references_[line];
  if (!executable) {
    const KernelInstance instance = float64_reference(problem);
    try {
      executable = device_.load(instance, cuda_compile(instance, device_.info()));
    } catch (const TrialError& error) {  // not the candidate's fault
      throw TrialError("internal_error", std::string("the float64 reference: ") + error.what());
    }
  }
  return *executable;
}

void CudaVerifier::compute(const Problem& problem, const Buffers& buffers, void* reference) {
  Executable& executable = reference_of(problem);
  const auto workspace = device_.allocate(executable.workspace_bytes(), "the float64 reference's workspace");
  Buffers own = buffers;
  own.output = reference;
  own.workspace = workspace->data();
  executable.run(own, nullptr);
  device_.synchronize();
}

ErrorMetrics CudaVerifier::verify(const Problem& problem, const Buffers& buffers) {
  if (problem.output_extents().elements() > budget_bytes() / 8) return verify_by_samples(problem, buffers);
  const std::string key = key_of(problem, buffers);
  const double* reference = find(key);
  if (!reference) reference = keep(key, problem, buffers);
  ErrorSums sums;
  tools_.compare(buffers.output, problem.dtype, reference, problem.output_extents().elements(), sums);
  return metrics_of(sums);
}

ErrorMetrics CudaVerifier::verify_by_samples(const Problem& problem, const Buffers& buffers) {
  const std::int64_t per_sample = problem.output_extents().elements() / problem.n;
  const std::int64_t most = std::clamp<std::int64_t>(budget_bytes() / (8 * per_sample), 1, problem.n);
  forget();
  const auto reference =
      device_.allocate(static_cast<std::size_t>(most * per_sample * 8), "the float64 reference");
  ErrorSums sums;
  for (std::int64_t sample = 0; sample < problem.n; sample += most) {
    Problem part = problem;
    part.n = std::min(most, problem.n - sample);
    const Buffers own = from_sample(problem, buffers, sample);
    compute(part, own, reference->data());
    tools_.compare(own.output, problem.dtype, static_cast<const double*>(reference->data()),
                   part.n * per_sample, sums);
  }
  return metrics_of(sums);
}

}  // namespace knobwise
