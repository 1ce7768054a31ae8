// Which outputs to check, and checking them.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "kernels/operands.h"
#include "kernels/reference.h"

namespace knobwise {
namespace {

using Coordinates = std::array<std::int64_t, 5>;  // n, c, d, h, w

std::int64_t memory_index(Layout layout, const Extents& e, const Coordinates& at) {
  const auto [n, c, d, h, w] = at;
  if (layout == Layout::nchw) return (((n * e.c + c) * e.d + d) * e.h + h) * e.w + w;
  return (((n * e.d + d) * e.h + h) * e.w + w) * e.c + c;
}

bool has_step(const Problem& problem, EpilogueOp op) {
  return std::any_of(problem.epilogue.begin(), problem.epilogue.end(),
                     [op](const EpilogueStep& step) { return step.op == op; });
}

bool has_norm(const Problem& problem) {
  return has_step(problem, EpilogueOp::group_norm) || has_step(problem, EpilogueOp::instance_norm);
}

// Both ends of a dimension and both sides of every seam, at most `limit` seams, evenly spread with the last
// one.
std::vector<std::int64_t> notable(std::int64_t extent, std::int64_t tile, std::int64_t limit) {
  std::set<std::int64_t> places = {0, std::min<std::int64_t>(1, extent - 1),
                                   std::max<std::int64_t>(0, extent - 2), extent - 1};
  const std::int64_t seams = tile > 0 ? (extent - 1) / tile : 0;
  const std::int64_t taken = std::min(seams, limit);
  for (std::int64_t i = 1; i <= taken; ++i) {
    const std::int64_t seam = (seams * i + taken - 1) / taken * tile;
    places.insert(seam - 1);
    places.insert(std::min(seam, extent - 1));
  }
  return {places.begin(), places.end()};
}

// Multiply-accumulates that one more output costs, beyond what it shares with its neighbours.
double cost_of_output(const Problem& problem) {
  const double reduced = static_cast<double>(problem.conv_extents().elements()) /
                         static_cast<double>(std::max<std::int64_t>(1, problem.output_extents().elements()));
  const double channels = has_step(problem, EpilogueOp::softmax) ? static_cast<double>(problem.k) : 1;
  return static_cast<double>(problem.fan_in()) * reduced * channels;
}

// Indices of outputs that are not numbers, at most `limit`: never-written ones hide from a sample.
std::vector<std::int64_t> find_nans(const Problem& problem, const void* output, std::size_t limit) {
  const std::int64_t elements = problem.output_extents().elements();
  const std::int64_t threads =
      std::clamp<std::int64_t>(elements >> 20, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(threads));
  const auto scan = [&](std::int64_t t) {
    const std::int64_t begin = elements / threads * t,
                       end = t + 1 == threads ? elements : elements / threads * (t + 1);
    std::vector<std::int64_t>& mine = found[static_cast<std::size_t>(t)];
    for (std::int64_t i = begin; i < end && mine.size() < limit; ++i) {
      if (std::isnan(load_element(output, problem.dtype, i))) mine.push_back(i);
    }
  };
  std::vector<std::thread> helpers;
  for (std::int64_t t = 1; t < threads; ++t) helpers.emplace_back(scan, t);
  scan(0);
  for (std::thread& helper : helpers) helper.join();
  std::vector<std::int64_t> all;
  for (const auto& part : found) all.insert(all.end(), part.begin(), part.end());
  if (all.size() > limit) all.resize(limit);
  return all;
}

}  // namespace

std::vector<std::int64_t> sample_outputs(const Problem& problem, const OutputTile& tile, std::int64_t budget,
                                         std::uint64_t seed) {
  const Extents e = problem.output_extents();
  std::set<std::int64_t> chosen;
  if (e.elements() <= budget) {
    for (std::int64_t i = 0; i < e.elements(); ++i) chosen.insert(chosen.end(), i);
    return {chosen.begin(), chosen.end()};
  }
  std::mt19937_64 random(seed);
  const auto below = [&random](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  const Coordinates extents = {e.n, e.c, e.d, e.h, e.w};
  const Coordinates tiles = {1, tile.k, tile.d, tile.h, tile.w};
  // A norm's statistics cost a whole group: few (sample, channel) pairs then, many positions in each.
  std::vector<std::pair<std::int64_t, std::int64_t>> anchors = {{0, 0}, {e.n - 1, e.c - 1}};
  for (int i = 0; i < 2; ++i) anchors.emplace_back(below(e.n), below(e.c));
  const bool few_groups = has_norm(problem);
  const auto anywhere = [&]() -> Coordinates {
    const auto [n, c] =
        few_groups ? anchors[static_cast<std::size_t>(below(4))] : std::pair{below(e.n), below(e.c)};
    return {n, c, below(e.d), below(e.h), below(e.w)};
  };

  for (int corner = 0; corner < 32; ++corner) {
    Coordinates at{};
    for (std::size_t i = 0; i < 5; ++i) at[i] = corner >> i & 1 ? extents[i] - 1 : 0;
    chosen.insert(memory_index(problem.layout, e, at));
  }
  const std::int64_t seams = std::max<std::int64_t>(8, budget / 20);
  for (std::size_t dimension = 0; dimension < 5; ++dimension) {
    // Every sample and, with a norm, every group would be too many: both ends and some between.
    const std::int64_t limit = dimension == 0 ? 4 : few_groups && dimension == 1 ? 8 : seams;
    for (std::int64_t place : notable(extents[dimension], tiles[dimension], limit)) {
      Coordinates at = anywhere();
      at[dimension] = place;
      chosen.insert(memory_index(problem.layout, e, at));
    }
  }
  const std::int64_t draws =
      budget - std::min<std::int64_t>(budget, static_cast<std::int64_t>(chosen.size()));
  for (std::int64_t i = 0; i < draws; ++i) {
    Coordinates at = anywhere();
    chosen.insert(memory_index(problem.layout, e, at));
    if (!has_step(problem, EpilogueOp::softmax)) continue;
    // The other channels of a softmax come for nothing.
    for (at[1] = 0; at[1] < e.c; ++at[1]) chosen.insert(memory_index(problem.layout, e, at));
  }
  return {chosen.begin(), chosen.end()};
}

ErrorMetrics verify_host(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                         std::uint64_t seed) {
  constexpr std::int64_t kWholeFlops = 200'000'000;
  constexpr double kSampleCost = 1e8;  // multiply-accumulates, about 0.2 s
  ErrorAccumulator errors;
  if (problem.flops() <= kWholeFlops) {
    std::vector<double> reference(static_cast<std::size_t>(problem.output_extents().elements()));
    reference_output(problem, buffers, reference.data(), 0);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      errors.add(load_element(buffers.output, problem.dtype, static_cast<std::int64_t>(i)), reference[i]);
    }
    return errors.metrics();
  }
  const std::int64_t budget =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kSampleCost / cost_of_output(problem)), 512, 20'000);
  std::vector<std::int64_t> indices = sample_outputs(problem, tile, budget, seed);
  const std::vector<std::int64_t> nans = find_nans(problem, buffers.output, 64);
  indices.insert(indices.end(), nans.begin(), nans.end());
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  const std::vector<double> reference = reference_at(problem, buffers, indices);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    errors.add(load_element(buffers.output, problem.dtype, indices[i]), reference[i]);
  }
  return errors.metrics();
}

}  // namespace knobwise
