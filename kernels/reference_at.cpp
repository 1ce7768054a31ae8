// Chosen outputs in float64, without computing the rest.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/activation_index.h"
#include "kernels/elementwise.h"
#include "kernels/operands.h"
#include "kernels/parallel_for.h"
#include "kernels/reference.h"
#include "kernels/shared_work.h"

namespace knobwise {
namespace {

// The positions in the filter, along one dimension, whose input exists: the rest is padding.
struct Taps {
  std::int64_t begin, end;  // in the filter
  std::int64_t first;       // the input of position 0
};

Taps taps(const Problem& p, std::size_t dimension, std::int64_t output) {
  const std::int64_t dilation = p.dilation[dimension];
  const std::int64_t first = output * p.stride[dimension] - p.pad[dimension];
  const std::int64_t before = first < 0 ? (-first + dilation - 1) / dilation : 0;
  const std::int64_t room = p.in[dimension] - first;  // inputs from position 0 to the end
  const std::int64_t within = room <= 0 ? 0 : (room + dilation - 1) / dilation;
  return {before, std::min(p.filter[dimension], within), first};
}

template <bool kSingle>
double load(const void* data, DType dtype, std::int64_t index) {
  if constexpr (kSingle) return static_cast<const float*>(data)[index];
  return load_element(data, dtype, index);
}

// What the values of a problem are computed from; immutable, shared by all threads.
struct Source {
  Source(const Problem& p, const Buffers& b) : problem(p), buffers(b) {
    const std::vector<ParameterSpec> specs = p.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) parameter_index[specs[i].name] = i;
    for (std::size_t i = 0; i <= p.epilogue.size(); ++i) extents.push_back(p.extents_before(i));
  }

  double parameter(std::size_t index, std::int64_t element) const {
    return load_element(buffers.parameters.at(index), problem.dtype, element);
  }

  double parameter(const char* name, std::size_t step, std::int64_t element) const {
    return parameter(parameter_index.at(name + std::to_string(step)), element);
  }

  double convolution(const Position& at) const {
    return problem.dtype == DType::f32 ? convolve<true>(at) : convolve<false>(at);
  }

  template <bool kSingle>
  double convolve(const Position& at) const {
    const Problem& p = problem;
    const Extents in = p.input_extents();
    const Taps t_taps = taps(p, 0, at.d), r_taps = taps(p, 1, at.h), s_taps = taps(p, 2, at.w);
    const std::int64_t c_per_group = p.c / p.groups;
    const std::int64_t first_c = at.c / (p.k / p.groups) * c_per_group;
    const std::int64_t step = p.dilation[2] * (p.layout == Layout::nchw ? 1 : in.c);
    double total = p.bias ? parameter(1, at.c) : 0;
    for (std::int64_t c = 0; c < c_per_group; ++c) {
      for (std::int64_t t = t_taps.begin; t < t_taps.end; ++t) {
        for (std::int64_t r = r_taps.begin; r < r_taps.end; ++r) {
          const Position from{at.n, first_c + c, t_taps.first + t * p.dilation[0],
                              r_taps.first + r * p.dilation[1], s_taps.first + s_taps.begin * p.dilation[2]};
          std::int64_t input = memory_index(p.layout, in, from);
          const std::int64_t weights =
              ((at.c * c_per_group + c) * p.filter[0] + t) * p.filter[1] * p.filter[2] + r * p.filter[2];
          double line = 0;
          for (std::int64_t s = s_taps.begin; s < s_taps.end; ++s, input += step) {
            line += load<kSingle>(buffers.parameters[0], p.dtype, weights + s) *
                    load<kSingle>(buffers.input, p.dtype, input);
          }
          total += line;
        }
      }
    }
    return total;
  }

  const Problem& problem;
  const Buffers& buffers;
  std::map<std::string, std::size_t> parameter_index;
  std::vector<Extents> extents;  // before each step, then of the output
};

// Values after each step of the chain, computed on demand; what several outputs share is kept.
class PointReference {
 public:
  explicit PointReference(const Source& source)
      : source_(source), problem_(source.problem), extents_(source.extents) {}

  // The value in front of step `step`; the whole chain's for step == epilogue.size().
  double value(std::size_t step, const Position& at) {
    if (step == 0) return source_.convolution(at);
    const EpilogueStep& last = problem_.epilogue[step - 1];
    if (is_elementwise(last.op)) return apply_elementwise(last, value(step - 1, at), residual(step - 1, at));
    if (last.op == EpilogueOp::softmax) return softmax(step - 1, at);
    if (last.op == EpilogueOp::group_norm || last.op == EpilogueOp::instance_norm)
      return normalised(step - 1, at);
    return reduced(step - 1, at);
  }

 private:
  double residual(std::size_t step, const Position& at) const {
    if (problem_.epilogue[step].op != EpilogueOp::residual) return 0;
    return source_.parameter("residual", step, memory_index(problem_.layout, extents_[step], at));
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
    return centred * source_.parameter("scale", step, at.c) + source_.parameter("shift", step, at.c);
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

  const Source& source_;
  const Problem& problem_;
  const std::vector<Extents>& extents_;
  std::map<std::pair<std::size_t, Position>, std::vector<double>> columns_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, Group> groups_;
};

}  // namespace

std::vector<double> reference_at(const Problem& problem, const Buffers& buffers,
                                 const std::vector<std::int64_t>& indices) {
  const Source source(problem, buffers);
  const Extents extents = problem.output_extents();
  // Outputs that share work belong to one thread, which computes the shared part once.
  std::vector<std::pair<Box, std::size_t>> order;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    order.emplace_back(convolution_box(problem, position_at(problem.layout, extents, indices[i])), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i].first != order[i - 1].first) starts.push_back(i);
  }
  starts.push_back(order.size());

  std::vector<double> values(indices.size());
  parallel_for(static_cast<std::int64_t>(starts.size()) - 1, 0, [&](std::int64_t part) {
    PointReference reference(source);
    const std::size_t begin = starts[static_cast<std::size_t>(part)];
    const std::size_t end = starts[static_cast<std::size_t>(part) + 1];
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t which = order[i].second;
      values[which] =
          reference.value(problem.epilogue.size(), position_at(problem.layout, extents, indices[which]));
    }
  });
  return values;
}

}  // namespace knobwise
