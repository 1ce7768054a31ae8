#include "runtime/distance.h"

#include <algorithm>
#include <cmath>

namespace knobwise {

std::optional<double> problem_distance(const Problem& a, const Problem& b) {
  if (a.user != b.user || a.rank != b.rank || a.dtype != b.dtype || a.layout != b.layout || a.bias != b.bias)
    return std::nullopt;
  const auto same_step = [](const EpilogueStep& x, const EpilogueStep& y) {
    return x.op == y.op && x.axis == y.axis && x.affine == y.affine;
  };
  if (!std::equal(a.epilogue.begin(), a.epilogue.end(), b.epilogue.begin(), b.epilogue.end(), same_step))
    return std::nullopt;
  double distance = 0;
  const auto add = [&distance](std::int64_t x, std::int64_t y) {
    distance += std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  add(a.n, b.n);
  add(a.c, b.c);
  add(a.k, b.k);
  add(a.groups, b.groups);
  for (std::size_t i = 0; i < 3; ++i) {
    add(a.in[i], b.in[i]);
    add(a.filter[i], b.filter[i]);
    add(a.stride[i], b.stride[i]);
    add(a.dilation[i], b.dilation[i]);
    add(a.pad[i] + 1, b.pad[i] + 1);
  }
  return distance;
}

}  // namespace knobwise
