// direct_conv against oneDNN on the five reference problems, both from plain tensors to plain tensors with
// the epilogue inside the timed run and the weights packed before.
//
//   cpu_direct_conv_bench [trials=40] [rounds=9] [problem...]
//
// Searches `trials` configurations a problem (the default, then hill climbing from the best of a random
// sample), then times the winner and every configuration of oneDNN in turn, `rounds` times, and reports the
// minima: on a shared machine noise only adds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/direct_conv_family.h"
#include "kernels/operands.h"
#include "kernels/vendor/onednn.h"
#include "search_spaces/bound_space.h"

namespace knobwise {
namespace {

const char* const kProblems[] = {
    "conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7",
    "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine",
};

/// A problem's tensors on the device.
class Workload {
 public:
  Workload(Device& device, const Problem& problem) : device_(device) {
    buffers.input = filled(problem, -1, problem.input_extents().elements());
    const auto specs = problem.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i)
      buffers.parameters.push_back(filled(problem, static_cast<int>(i), specs[i].elements()));
    buffers.output = allocate(static_cast<std::size_t>(problem.output_extents().elements()) * 4);
  }

  void* allocate(std::size_t bytes) {
    memory_.push_back(device_.allocate(bytes, "the benchmark"));
    device_.fill_bytes(memory_.back()->data(), 0, bytes);
    return memory_.back()->data();
  }

  Buffers buffers;

 private:
  void* filled(const Problem& problem, int parameter, std::int64_t elements) {
    void* data = allocate(static_cast<std::size_t>(elements) * 4);
    device_.fill_operand(data, DType::f32, elements,
                         operand_fill(problem, Distribution::uniform, 1, parameter));
    return data;
  }

  Device& device_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
};

/// One configuration of one family, ready to run, with scratch of its own.
struct Candidate {
  std::string name;
  std::unique_ptr<Executable> executable;
  std::unique_ptr<DeviceBuffer> packed, workspace;
  double best_us = INFINITY;

  double time(Device& device, Buffers buffers, const TimingOptions& options) {
    buffers.packed = packed->data();
    buffers.workspace = workspace->data();
    executable->prepare(buffers, nullptr);
    const double us = device.time(*executable, buffers, options).min_us;
    best_us = std::min(best_us, us);
    return us;
  }
};

Candidate make_candidate(Device& device, const KernelFamily& family, const Problem& problem,
                         const Configuration& configuration) {
  Candidate candidate;
  candidate.name = fmt::format("{} {}", family.name(), configuration.to_json());
  if (family.builtin()) {
    candidate.executable = family.create_builtin(problem, configuration, device);
  } else {
    const KernelInstance instance = family.instantiate(problem, configuration, device.info());
    candidate.executable = device.load(instance, cpu_compile(instance, device.info()));
  }
  candidate.packed = device.allocate(candidate.executable->packed_bytes(), "packed weights");
  candidate.workspace = device.allocate(candidate.executable->workspace_bytes(), "the workspace");
  return candidate;
}

class Search {
 public:
  Search(Device& device, const Problem& problem, Workload& workload)
      : device_(device),
        problem_(problem),
        workload_(workload),
        space_(bind_space(cpu_direct_conv_family(), problem, device.info())) {}

  Candidate run(int trials) {
    std::mt19937_64 random(1);
    trials_left_ = trials;
    attempt(space_.default_index());
    for (const std::uint64_t index : space_.sample(static_cast<std::uint64_t>(trials / 3), random))
      attempt(index);
    while (trials_left_ > 0 && climb(random)) {
    }
    return std::move(best_);
  }

  std::uint64_t size() const { return space_.size(); }

 private:
  bool climb(std::mt19937_64& random) {
    auto neighbours = space_.neighbours(best_index_, Neighbourhood::hamming);
    std::shuffle(neighbours.begin(), neighbours.end(), random);
    for (const std::uint64_t index : neighbours)
      if (trials_left_ > 0 && attempt(index)) return true;
    return false;
  }

  /// True if the configuration is the best so far. Reduced precision does not compete.
  bool attempt(std::uint64_t index) {
    const Configuration configuration = space_.configuration(index);
    if (configuration.text("precision") != "fp32" || !seen_.insert(index).second) return false;
    --trials_left_;
    Candidate candidate = make_candidate(device_, cpu_direct_conv_family(), problem_, configuration);
    TimingOptions options;
    options.warmup = 1;
    options.min_samples = options.max_samples = 4;
    options.max_seconds = 4;
    if (std::isfinite(best_.best_us)) options.abandon_above_us = 1.6 * best_.best_us;
    if (candidate.time(device_, workload_.buffers, options) >= best_.best_us) return false;
    best_ = std::move(candidate);
    best_index_ = index;
    return true;
  }

  Device& device_;
  const Problem& problem_;
  Workload& workload_;
  BoundSpace space_;
  std::set<std::uint64_t> seen_;
  int trials_left_ = 0;
  Candidate best_;
  std::uint64_t best_index_ = 0;
};

/// The ratio of oneDNN's time to ours.
double compare(Device& device, const Problem& problem, int trials, int rounds) {
  Workload workload(device, problem);
  Search search(device, problem, workload);
  fmt::print("{}\n  {} configurations\n", problem.to_string(), search.size());
  std::vector<Candidate> candidates;
  candidates.push_back(search.run(trials));
  const BoundSpace vendor = bind_space(onednn_family(), problem, device.info());
  for (std::uint64_t i = 0; i < vendor.size(); ++i) try {
      candidates.push_back(make_candidate(device, onednn_family(), problem, vendor.configuration(i)));
    } catch (const TrialError& error) {
      fmt::print("  onednn {}: {}\n", vendor.configuration(i).to_json(), error.what());
    }
  TimingOptions options;
  options.warmup = 1;
  options.min_samples = options.max_samples = 1;
  for (Candidate& candidate : candidates) candidate.best_us = INFINITY;
  for (int round = 0; round < rounds; ++round)
    for (Candidate& candidate : candidates) candidate.time(device, workload.buffers, options);
  double library_us = INFINITY;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    fmt::print("  {:10.0f} us  {:6.1f} GFLOP/s  {}\n", candidates[i].best_us,
               static_cast<double>(problem.flops()) / candidates[i].best_us / 1e3, candidates[i].name);
    if (i > 0) library_us = std::min(library_us, candidates[i].best_us);
  }
  fmt::print("  onednn / direct_conv = {:.3f}\n", library_us / candidates[0].best_us);
  std::fflush(stdout);
  return library_us / candidates[0].best_us;
}

int run(int trials, int rounds, std::vector<std::string> lines) {
  if (lines.empty()) lines.assign(std::begin(kProblems), std::end(kProblems));
  const auto device = open_cpu_device();
  double logarithms = 0;
  for (const std::string& line : lines)
    logarithms += std::log(compare(*device, Problem::parse(line), trials, rounds));
  fmt::print("geometric mean of onednn / direct_conv: {:.3f}\n",
             std::exp(logarithms / static_cast<double>(lines.size())));
  return 0;
}

}  // namespace
}  // namespace knobwise

int main(int count, char** words) {
  const int trials = count > 1 ? std::atoi(words[1]) : 40, rounds = count > 2 ? std::atoi(words[2]) : 9;
  try {
    return knobwise::run(trials, rounds, std::vector<std::string>(words + std::min(count, 3), words + count));
  } catch (const std::exception& error) {
    fmt::print(stderr, "cpu_direct_conv_bench: {}\n", error.what());
    return 2;
  }
}
