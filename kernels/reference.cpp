// The whole output in float64, sample by sample.
#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "kernels/activation_index.h"
#include "kernels/elementwise.h"
#include "kernels/operands.h"
#include "kernels/parallel_for.h"

namespace knobwise {
namespace {

// Activations of one sample: channel, depth, height, width, in that order of memory.
struct Tensor {
  Extents extents;  // n is 1
  std::vector<double> values;
};

template <class Body>
void for_each_element(const Extents& e, const Body& body) {
  std::int64_t i = 0;
  for (std::int64_t c = 0; c < e.c; ++c) {
    for (std::int64_t d = 0; d < e.d; ++d) {
      for (std::int64_t h = 0; h < e.h; ++h) {
        for (std::int64_t w = 0; w < e.w; ++w) body(i++, c, d, h, w);
      }
    }
  }
}

std::vector<double> load_all(const void* data, DType dtype, std::int64_t elements) {
  std::vector<double> values(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i)
    values[static_cast<std::size_t>(i)] = load_element(data, dtype, i);
  return values;
}

class SampleReference {
 public:
  SampleReference(const Problem& problem, const Buffers& buffers, int threads)
      : problem_(problem), buffers_(buffers), threads_(threads), specs_(problem.parameters()) {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      parameter_index_[specs_[i].name] = i;
      // Residuals are as large as the output and read in place.
      if (specs_[i].name.starts_with("residual")) continue;
      parameters_[i] = load_all(buffers.parameters.at(i), problem.dtype, specs_[i].elements());
    }
  }

  Tensor compute(std::int64_t n) {
    Tensor tensor = convolve(load_sample(n));
    for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) apply(i, n, tensor);
    return tensor;
  }

 private:
  Tensor load_sample(std::int64_t n) const {
    const Extents all = problem_.input_extents();
    Tensor tensor{{1, all.c, all.d, all.h, all.w}, {}};
    tensor.values.resize(static_cast<std::size_t>(tensor.extents.elements()));
    const std::int64_t plane = all.d * all.h * all.w;
    parallel_for(all.c, threads_, [&](std::int64_t c) {
      std::int64_t i = c * plane;
      for (std::int64_t d = 0; d < all.d; ++d) {
        for (std::int64_t h = 0; h < all.h; ++h) {
          for (std::int64_t w = 0; w < all.w; ++w) {
            tensor.values[static_cast<std::size_t>(i++)] = load_element(
                buffers_.input, problem_.dtype, memory_index(problem_.layout, all, {n, c, d, h, w}));
          }
        }
      }
    });
    return tensor;
  }

  Tensor convolve(const Tensor& input) const {
    const Extents conv = problem_.conv_extents();
    Tensor output{{1, conv.c, conv.d, conv.h, conv.w}, {}};
    output.values.resize(static_cast<std::size_t>(output.extents.elements()));
    parallel_for(conv.c * conv.d * conv.h, threads_, [&](std::int64_t row) {
      convolve_row(input, row / (conv.d * conv.h), row / conv.h % conv.d, row % conv.h,
                   output.values.data() + row * conv.w);
    });
    return output;
  }

  // One row of outputs; the innermost loop runs over it, so that the compiler vectorises.
  void convolve_row(const Tensor& input, std::int64_t k, std::int64_t od, std::int64_t oh,
                    double* row) const {
    const Problem& p = problem_;
    const std::int64_t ow = p.conv_extents().w;
    const std::int64_t c_per_group = p.c / p.groups;
    const std::int64_t first_c = k / (p.k / p.groups) * c_per_group;
    const double* weights = parameters_.at(0).data() + k * p.fan_in();
    std::fill(row, row + ow, p.bias ? parameters_.at(1)[static_cast<std::size_t>(k)] : 0.0);
    for (std::int64_t c = 0; c < c_per_group; ++c) {
      for (std::int64_t t = 0; t < p.filter[0]; ++t) {
        const std::int64_t d = od * p.stride[0] - p.pad[0] + t * p.dilation[0];
        if (d < 0 || d >= p.in[0]) continue;
        for (std::int64_t r = 0; r < p.filter[1]; ++r) {
          const std::int64_t h = oh * p.stride[1] - p.pad[1] + r * p.dilation[1];
          if (h < 0 || h >= p.in[1]) continue;
          const double* line = input.values.data() + (((first_c + c) * p.in[0] + d) * p.in[1] + h) * p.in[2];
          for (std::int64_t s = 0; s < p.filter[2]; ++s) {
            const double weight = weights[((c * p.filter[0] + t) * p.filter[1] + r) * p.filter[2] + s];
            const std::int64_t shift = s * p.dilation[2] - p.pad[2];
            const std::int64_t stride = p.stride[2];
            // The outputs whose input lies inside the line.
            const std::int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
            const std::int64_t end =
                p.in[2] - 1 - shift < 0 ? 0 : std::min(ow, (p.in[2] - 1 - shift) / stride + 1);
            for (std::int64_t x = begin; x < end; ++x) row[x] += weight * line[x * stride + shift];
          }
        }
      }
    }
  }

  void apply(std::size_t index, std::int64_t n, Tensor& tensor) const {
    const EpilogueStep& step = problem_.epilogue[index];
    if (is_elementwise(step.op)) {
      apply_to_each(index, n, tensor);
    } else if (step.op == EpilogueOp::softmax) {
      softmax(tensor);
    } else if (step.op == EpilogueOp::group_norm || step.op == EpilogueOp::instance_norm) {
      normalise(index, tensor);
    } else {
      reduce(step, tensor);
    }
  }

  void apply_to_each(std::size_t index, std::int64_t n, Tensor& tensor) const {
    const EpilogueStep& step = problem_.epilogue[index];
    const void* residual = nullptr;
    if (step.op == EpilogueOp::residual) {
      residual = buffers_.parameters.at(parameter_index_.at("residual" + std::to_string(index)));
    }
    Extents all = tensor.extents;
    all.n = problem_.n;
    for_each_element(
        tensor.extents, [&](std::int64_t i, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
          const double added = residual ? load_element(residual, problem_.dtype,
                                                       memory_index(problem_.layout, all, {n, c, d, h, w}))
                                        : 0;
          double& value = tensor.values[static_cast<std::size_t>(i)];
          value = apply_elementwise(step, value, added);
        });
  }

  static void reduce(const EpilogueStep& step, Tensor& tensor) {
    const Extents before = tensor.extents;
    Extents after = before;
    std::int64_t& axis = step.axis == Axis::channel  ? after.c
                         : step.axis == Axis::depth  ? after.d
                         : step.axis == Axis::height ? after.h
                                                     : after.w;
    const std::int64_t count = axis;
    axis = 1;
    std::vector<double> reduced(static_cast<std::size_t>(after.elements()));
    std::vector<char> started(reduced.size());
    for_each_element(
        before, [&](std::int64_t i, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
          const std::size_t at =
              static_cast<std::size_t>(memory_index(Layout::nchw, after,
                                                    {0, std::min(c, after.c - 1), std::min(d, after.d - 1),
                                                     std::min(h, after.h - 1), std::min(w, after.w - 1)}));
          const double value = tensor.values[static_cast<std::size_t>(i)];
          reduced[at] = started[at] ? combine(step.op, reduced[at], value) : value;
          started[at] = 1;
        });
    if (step.op == EpilogueOp::mean) {
      for (double& value : reduced) value /= static_cast<double>(count);
    }
    tensor = {after, std::move(reduced)};
  }

  static void softmax(Tensor& tensor) {
    const std::int64_t plane = tensor.extents.d * tensor.extents.h * tensor.extents.w;
    for (std::int64_t position = 0; position < plane; ++position) {
      double* first = tensor.values.data() + position;
      double largest = first[0], total = 0;
      for (std::int64_t c = 1; c < tensor.extents.c; ++c)
        largest = combine(EpilogueOp::max, largest, first[c * plane]);
      for (std::int64_t c = 0; c < tensor.extents.c; ++c)
        total += first[c * plane] = std::exp(first[c * plane] - largest);
      for (std::int64_t c = 0; c < tensor.extents.c; ++c) first[c * plane] /= total;
    }
  }

  void normalise(std::size_t index, Tensor& tensor) const {
    const EpilogueStep& step = problem_.epilogue[index];
    const std::int64_t channels = tensor.extents.c;
    const std::int64_t groups = step.op == EpilogueOp::group_norm ? step.groups : channels;
    const std::int64_t plane = tensor.extents.d * tensor.extents.h * tensor.extents.w;
    const std::int64_t count = channels / groups * plane;
    for (std::int64_t g = 0; g < groups; ++g) {
      double* begin = tensor.values.data() + g * count;
      double mean = 0, variance = 0;
      for (std::int64_t i = 0; i < count; ++i) mean += begin[i];
      mean /= static_cast<double>(count);
      // Two passes: E[x^2] - E[x]^2 would cancel.
      for (std::int64_t i = 0; i < count; ++i) variance += (begin[i] - mean) * (begin[i] - mean);
      const double factor = 1 / std::sqrt(variance / static_cast<double>(count) + step.numbers[0]);
      for (std::int64_t i = 0; i < count; ++i) begin[i] = (begin[i] - mean) * factor;
    }
    if (!step.affine) return;
    const std::vector<double>& scale = parameters_.at(parameter_index_.at("scale" + std::to_string(index)));
    const std::vector<double>& shift = parameters_.at(parameter_index_.at("shift" + std::to_string(index)));
    for (std::int64_t i = 0; i < channels * plane; ++i) {
      const std::size_t c = static_cast<std::size_t>(i / plane);
      double& value = tensor.values[static_cast<std::size_t>(i)];
      value = value * scale[c] + shift[c];
    }
  }

  const Problem& problem_;
  const Buffers& buffers_;
  int threads_;
  std::vector<ParameterSpec> specs_;
  std::map<std::string, std::size_t> parameter_index_;
  std::map<std::size_t, std::vector<double>> parameters_;
};

}  // namespace

void reference_output(const Problem& problem, const Buffers& buffers, double* output, int threads) {
  SampleReference reference(problem, buffers, threads);
  const Extents all = problem.output_extents();
  for (std::int64_t n = 0; n < problem.n; ++n) {
    const Tensor tensor = reference.compute(n);
    for_each_element(tensor.extents, [&](std::int64_t i, std::int64_t c, std::int64_t d, std::int64_t h,
                                         std::int64_t w) {
      output[memory_index(problem.layout, all, {n, c, d, h, w})] = tensor.values[static_cast<std::size_t>(i)];
    });
  }
}

}  // namespace knobwise
