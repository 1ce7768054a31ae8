// Chosen outputs in float64, without computing the rest.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/operands.h"
#include "kernels/reference.h"

namespace knobwise {
namespace {

struct Position {
  std::int64_t n, c, d, h, w;
  auto operator<=>(const Position&) const = default;
};

Position position_of(Layout layout, const Extents& e, std::int64_t index) {
  Position at{};
  const auto take = [&index](std::int64_t extent) {
    const std::int64_t digit = index % extent;
    index /= extent;
    return digit;
  };
  if (layout == Layout::nhwc) at.c = take(e.c);
  at.w = take(e.w);
  at.h = take(e.h);
  at.d = take(e.d);
  if (layout == Layout::nchw) at.c = take(e.c);
  at.n = index;
  return at;
}

std::int64_t index_of(Layout layout, const Extents& e, const Position& p) {
  if (layout == Layout::nchw) return (((p.n * e.c + p.c) * e.d + p.d) * e.h + p.h) * e.w + p.w;
  return (((p.n * e.d + p.d) * e.h + p.h) * e.w + p.w) * e.c + p.c;
}

// Values after each step of the chain, computed on demand; what several outputs share is kept.
class PointReference {
 public:
  PointReference(const Problem& problem, const Buffers& buffers) : problem_(problem), buffers_(buffers) {
    const std::vector<ParameterSpec> specs = problem.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) parameter_index_[specs[i].name] = i;
    for (std::size_t i = 0; i <= problem.epilogue.size(); ++i) extents_.push_back(problem.extents_before(i));
  }

  // The value in front of step `step`; the whole chain's for step == epilogue.size().
  double value(std::size_t step, const Position& at) {
    if (step == 0) return convolution(at);
    const EpilogueStep& last = problem_.epilogue[step - 1];
    if (is_elementwise(last.op)) return apply_elementwise(last, value(step - 1, at), residual(step - 1, at));
    if (last.op == EpilogueOp::softmax) return softmax(step - 1, at);
    if (last.op == EpilogueOp::group_norm || last.op == EpilogueOp::instance_norm)
      return normalised(step - 1, at);
    return reduced(step - 1, at);
  }

 private:
  double parameter(std::size_t index, std::int64_t element) const {
    return load_element(buffers_.parameters.at(index), problem_.dtype, element);
  }

  double convolution(const Position& at) const {
    const Problem& p = problem_;
    const Extents in = p.input_extents();
    const std::int64_t c_per_group = p.c / p.groups;
    const std::int64_t first_c = at.c / (p.k / p.groups) * c_per_group;
    double total = p.bias ? parameter(1, at.c) : 0;
    std::int64_t weight = at.c * p.fan_in();
    for (std::int64_t c = 0; c < c_per_group; ++c) {
      for (std::int64_t t = 0; t < p.filter[0]; ++t) {
        for (std::int64_t r = 0; r < p.filter[1]; ++r) {
          for (std::int64_t s = 0; s < p.filter[2]; ++s, ++weight) {
            const Position from{at.n, first_c + c, at.d * p.stride[0] - p.pad[0] + t * p.dilation[0],
                                at.h * p.stride[1] - p.pad[1] + r * p.dilation[1],
                                at.w * p.stride[2] - p.pad[2] + s * p.dilation[2]};
            if (from.d < 0 || from.d >= in.d || from.h < 0 || from.h >= in.h || from.w < 0 || from.w >= in.w)
              continue;
            total +=
                parameter(0, weight) * load_element(buffers_.input, p.dtype, index_of(p.layout, in, from));
          }
        }
      }
    }
    return total;
  }

  double residual(std::size_t step, const Position& at) const {
    if (problem_.epilogue[step].op != EpilogueOp::residual) return 0;
    return parameter(parameter_index_.at("residual" + std::to_string(step)),
                     index_of(problem_.layout, extents_[step], at));
  }

  double reduced(std::size_t step, Position at) {
    const EpilogueStep& s = problem_.epilogue[step];
    const Extents& e = extents_[step];
    std::int64_t& coordinate = s.axis == Axis::channel  ? at.c
                               : s.axis == Axis::depth  ? at.d
                               : s.axis == Axis::height ? at.h
                                                        : at.w;
    const std::int64_t count = s.axis == Axis::channel  ? e.c
                               : s.axis == Axis::depth  ? e.d
                               : s.axis == Axis::height ? e.h
                                                        : e.w;
    double result = 0;
    for (coordinate = 0; coordinate < count; ++coordinate) {
      const double next = value(step, at);
      result = coordinate == 0 ? next : combine(s.op, result, next);
    }
    return s.op == EpilogueOp::mean ? result / static_cast<double>(count) : result;
  }

  double softmax(std::size_t step, Position at) {
    const std::int64_t channel = at.c;
    at.c = 0;
    auto [found, added] = columns_.try_emplace({step, at});
    std::vector<double>& column = found->second;
    if (added) {
      for (at.c = 0; at.c < extents_[step].c; ++at.c) column.push_back(value(step, at));
      double largest = column[0], total = 0;
      for (double x : column) largest = combine(EpilogueOp::max, largest, x);
      for (double& x : column) total += x = std::exp(x - largest);
      for (double& x : column) x /= total;
    }
    return column[static_cast<std::size_t>(channel)];
  }

  struct Group {
    double mean = 0, factor = 0;
    std::vector<double> values;  // before the step: channel of the group, then position
  };

  double normalised(std::size_t step, const Position& at) {
    const EpilogueStep& s = problem_.epilogue[step];
    const Extents& e = extents_[step];
    const std::int64_t channels = s.op == EpilogueOp::group_norm ? e.c / s.groups : 1;
    auto [found, added] = groups_.try_emplace({step, at.n, at.c / channels});
    Group& group = found->second;
    if (added) fill_group(step, at, channels, group);
    const std::int64_t place = (((at.c % channels) * e.d + at.d) * e.h + at.h) * e.w + at.w;
    const double centred = (group.values[static_cast<std::size_t>(place)] - group.mean) * group.factor;
    if (!s.affine) return centred;
    return centred * parameter(parameter_index_.at("scale" + std::to_string(step)), at.c) +
           parameter(parameter_index_.at("shift" + std::to_string(step)), at.c);
  }

  void fill_group(std::size_t step, const Position& at, std::int64_t channels, Group& group) {
    const Extents& e = extents_[step];
    const std::int64_t first = at.c / channels * channels;
    for (std::int64_t c = first; c < first + channels; ++c) {
      for (std::int64_t d = 0; d < e.d; ++d) {
        for (std::int64_t h = 0; h < e.h; ++h) {
          for (std::int64_t w = 0; w < e.w; ++w) group.values.push_back(value(step, {at.n, c, d, h, w}));
        }
      }
    }
    const double count = static_cast<double>(group.values.size());
    for (double x : group.values) group.mean += x;
    group.mean /= count;
    double variance = 0;
    for (double x : group.values) variance += (x - group.mean) * (x - group.mean);
    group.factor = 1 / std::sqrt(variance / count + problem_.epilogue[step].numbers[0]);
  }

  const Problem& problem_;
  const Buffers& buffers_;
  std::map<std::string, std::size_t> parameter_index_;
  std::vector<Extents> extents_;
  std::map<std::pair<std::size_t, Position>, std::vector<double>> columns_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, Group> groups_;
};

}  // namespace

std::vector<double> reference_at(const Problem& problem, const Buffers& buffers,
                                 const std::vector<std::int64_t>& indices) {
  PointReference reference(problem, buffers);
  const Extents extents = problem.output_extents();
  std::vector<double> values;
  values.reserve(indices.size());
  for (std::int64_t index : indices) {
    values.push_back(reference.value(problem.epilogue.size(), position_of(problem.layout, extents, index)));
  }
  return values;
}

}  // namespace knobwise
