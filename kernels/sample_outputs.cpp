// Which outputs to check when checking all would take too long.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "kernels/reference.h"
#include "kernels/shared_work.h"

namespace knobwise {
namespace {

using Coordinates = std::array<std::int64_t, 5>;  // n, c, d, h, w

// Multiply-accumulates spent on the random part of a sample: a few tenths of a second.
constexpr double kSampleMacs = 1e8;

Coordinates coordinates(const Position& p) {
  return {p.n, p.c, p.d, p.h, p.w};
}

Position position(const Coordinates& at) {
  return {at[0], at[1], at[2], at[3], at[4]};
}

// The first two and last two places of a dimension and both sides of every seam; of the seams at most
// `limit`, evenly spread with the last one.
std::vector<std::int64_t> notable(std::int64_t extent, std::int64_t tile, std::int64_t limit) {
  std::set<std::int64_t> places = {0, std::min<std::int64_t>(1, extent - 1),
                                   std::max<std::int64_t>(0, extent - 2), extent - 1};
  const std::int64_t seams = (extent - 1) / std::max<std::int64_t>(1, tile);
  const std::int64_t taken = std::min(seams, limit);
  for (std::int64_t i = 1; i <= taken; ++i) {
    const std::int64_t seam = (seams * i + taken - 1) / taken * std::max<std::int64_t>(1, tile);
    places.insert(seam - 1);
    places.insert(seam);
  }
  return {places.begin(), places.end()};
}

class Sampler {
 public:
  Sampler(const Problem& problem, const OutputTile& tile, std::uint64_t seed)
      : problem_(problem), tile_(tile), random_(seed), extents_(problem.output_extents()) {
    const Extents& e = extents_;
    size_ = {e.n, e.c, e.d, e.h, e.w};
    seams_between_channels_ = affordable_seams();
  }

  std::vector<std::int64_t> draw(std::int64_t budget) {
    add_corners();
    add_seams();
    add_random(budget);
    return {chosen_.begin(), chosen_.end()};
  }

 private:
  void add(const Coordinates& at) { chosen_.insert(memory_index(problem_.layout, extents_, position(at))); }

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  Coordinates anywhere() {
    Coordinates at;
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = between(0, size_[i] - 1);
    return at;
  }

  // Seams between channels that are taken: all, unless a norm makes each of them cost a group too large.
  std::int64_t affordable_seams() const {
    if (!has_norm(problem_)) return extents_.c;
    const Box box = convolution_box(problem_, {});
    const std::int64_t groups = extents_.c / (std::min(box.high.c, extents_.c - 1) + 1);
    const double group = shared_macs(problem_);
    if (group * static_cast<double>(groups) <= 2 * kSampleMacs) return extents_.c;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(kSampleMacs / group));
  }

  void add_corners() {
    for (int corner = 0; corner < 32; ++corner) {
      Coordinates at{};
      for (std::size_t i = 0; i < at.size(); ++i) at[i] = corner >> i & 1 ? size_[i] - 1 : 0;
      add(at);
    }
  }

  // Along every dimension in turn, the others held at one random place: little work that is not shared.
  void add_seams() {
    const Coordinates tiles = {size_[0], tile_.k, tile_.d, tile_.h, tile_.w};
    for (std::size_t dimension = 0; dimension < size_.size(); ++dimension) {
      Coordinates at = anywhere();
      if (has_norm(problem_)) at[0] = at[1] = 0;  // a corner's group, paid for already
      const std::int64_t limit = dimension == 1 ? seams_between_channels_ : size_[dimension];
      for (std::int64_t place : notable(size_[dimension], tiles[dimension], limit)) {
        at[dimension] = place;
        add(at);
      }
    }
  }

  // Random outputs; where outputs share work, several from each part of it that is paid for.
  void add_random(std::int64_t budget) {
    const std::int64_t wanted = budget - static_cast<std::int64_t>(chosen_.size());
    if (wanted <= 0) return;
    const double affordable = std::max(2.0, kSampleMacs / shared_macs(problem_));
    const std::int64_t parts =
        affordable < static_cast<double>(wanted) ? static_cast<std::int64_t>(affordable) : wanted;
    for (std::int64_t part = 0; part < parts; ++part) {
      const Box box = outputs_of(problem_, convolution_box(problem_, position(anywhere())));
      const Coordinates low = coordinates(box.low), high = coordinates(box.high);
      for (std::int64_t i = wanted * part / parts; i < wanted * (part + 1) / parts; ++i) {
        Coordinates at;
        for (std::size_t j = 0; j < at.size(); ++j) at[j] = between(low[j], high[j]);
        add(at);
      }
    }
  }

  const Problem& problem_;
  const OutputTile& tile_;
  std::mt19937_64 random_;
  Extents extents_;
  Coordinates size_{};
  std::int64_t seams_between_channels_ = 0;
  std::set<std::int64_t> chosen_;
};

}  // namespace

std::vector<std::int64_t> sample_outputs(const Problem& problem, const OutputTile& tile, std::int64_t budget,
                                         std::uint64_t seed) {
  const std::int64_t elements = problem.output_extents().elements();
  if (elements > budget) return Sampler(problem, tile, seed).draw(budget);
  std::vector<std::int64_t> all(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

}  // namespace knobwise
