// Checks an output in host memory against the oracle.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/operands.h"
#include "kernels/parallel_for.h"
#include "kernels/reference.h"
#include "kernels/tensors.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

// Whether any of `count` elements from `begin` is not a number; written so that the compiler vectorises.
bool holds_nan(const void* data, DType dtype, std::int64_t begin, std::int64_t count) {
  unsigned found = 0;
  if (dtype == DType::f32) {
    const float* x = static_cast<const float*>(data) + begin;
    for (std::int64_t i = 0; i < count; ++i) found |= x[i] != x[i];
  } else {
    const std::uint16_t* x = static_cast<const std::uint16_t*>(data) + begin;
    const std::uint16_t infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
    for (std::int64_t i = 0; i < count; ++i) found |= (x[i] & 0x7fff) > infinity;
  }
  return found != 0;
}

// Indices of outputs that are not numbers, at most `limit`: never-written ones hide from a sample.
std::vector<std::int64_t> find_nans(const Problem& problem, const void* output, std::size_t limit) {
  constexpr std::int64_t kBlock = 1 << 16;
  const std::int64_t elements = problem.output_extents().elements();
  std::vector<std::int64_t> found;
  std::mutex mutex;
  parallel_for((elements + kBlock - 1) / kBlock, 0, [&](std::int64_t block) {
    const std::int64_t begin = block * kBlock, end = std::min(elements, begin + kBlock);
    if (!holds_nan(output, problem.dtype, begin, end - begin)) return;
    std::vector<std::int64_t> mine;
    for (std::int64_t i = begin; i < end && mine.size() < limit; ++i) {
      if (std::isnan(load_element(output, problem.dtype, i))) mine.push_back(i);
    }
    const std::lock_guard lock(mutex);
    found.insert(found.end(), mine.begin(), mine.end());
  });
  std::sort(found.begin(), found.end());
  if (found.size() > limit) found.resize(limit);
  return found;
}

// Of the problem and of every value that its outputs depend on.
XXH128_hash_t digest(const Problem& problem, const Buffers& buffers) {
  const std::string text = problem.to_string();
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const auto add = [&](const void* data, std::int64_t elements) {
    hash = XXH3_128bits_withSeed(data, tensor_bytes(problem, elements), hash.low64 ^ hash.high64);
  };
  add(buffers.input, problem.input_extents().elements());
  const std::vector<ParameterSpec> parameters = problem.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) add(buffers.parameters[i], parameters[i].elements());
  return hash;
}

using Reference = std::shared_ptr<const std::vector<double>>;

// The whole output. The last few are kept: many configurations are verified on the same inputs.
Reference whole_reference(const Problem& problem, const Buffers& buffers) {
  struct Known {
    XXH128_hash_t digest;
    Reference reference;
  };
  constexpr std::size_t kKept = 3, kMostElements = std::size_t{1} << 18;  // 2 MB each
  static std::mutex mutex;
  static auto& known = never_destroyed(std::deque<Known>());
  const XXH128_hash_t wanted = digest(problem, buffers);
  const std::lock_guard lock(mutex);
  for (const Known& entry : known)
    if (XXH128_isEqual(entry.digest, wanted)) return entry.reference;
  const auto elements = static_cast<std::size_t>(problem.output_extents().elements());
  auto reference = std::make_shared<std::vector<double>>(elements);
  reference_output(problem, buffers, reference->data(), 0);
  if (elements <= kMostElements) known.push_front({wanted, reference});
  if (known.size() > kKept) known.pop_back();
  return reference;
}

ErrorMetrics verify_all(const Problem& problem, const Buffers& buffers) {
  const Reference reference = whole_reference(problem, buffers);
  ErrorAccumulator errors;
  for (std::size_t i = 0; i < reference->size(); ++i) {
    errors.add(load_element(buffers.output, problem.dtype, static_cast<std::int64_t>(i)), (*reference)[i]);
  }
  return errors.metrics();
}

}  // namespace

ErrorMetrics verify_host(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                         std::uint64_t seed) {
  constexpr std::int64_t kWholeFlops = 200'000'000;
  constexpr std::int64_t kWholeElements = std::int64_t{1} << 24;  // as several tensors of doubles
  constexpr std::int64_t kSample = 20'000;
  if (problem.flops() <= kWholeFlops &&
      problem.input_extents().elements() + problem.conv_extents().elements() <= kWholeElements)
    return verify_all(problem, buffers);

  std::vector<std::int64_t> indices = sample_outputs(problem, tile, kSample, seed);
  const std::vector<std::int64_t> nans = find_nans(problem, buffers.output, 64);
  indices.insert(indices.end(), nans.begin(), nans.end());
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  const std::vector<double> reference = reference_at(problem, buffers, indices);
  ErrorAccumulator errors;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    errors.add(load_element(buffers.output, problem.dtype, indices[i]), reference[i]);
  }
  return errors.metrics();
}

}  // namespace knobwise
