#include "kernels/vendor/plain_epilogue.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/parallel_for.h"

// One version of a loop for each class of processors; the program itself is built for the oldest.
#define KW_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef KW_CLONES
#define KW_CLONES
#endif

namespace knobwise {
namespace {

void parallel_for(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t threads =
      std::min<std::int64_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  knobwise::parallel_for(threads, 0,
                         [&](std::int64_t t) { body(count * t / threads, count * (t + 1) / threads); });
}

// Lines of `inner` elements, `count` of them `inner` apart, into one line. NaN wins, as in frameworks.
KW_CLONES void reduce_lines(EpilogueOp op, const float* from, std::int64_t count, std::int64_t inner,
                            float* to) {
  std::memcpy(to, from, static_cast<std::size_t>(inner) * sizeof(float));
  for (std::int64_t i = 1; i < count; ++i) {
    const float* line = from + i * inner;
    if (op == EpilogueOp::min) {
      for (std::int64_t x = 0; x < inner; ++x) to[x] = (to[x] < line[x]) | (to[x] != to[x]) ? to[x] : line[x];
    } else if (op == EpilogueOp::max) {
      for (std::int64_t x = 0; x < inner; ++x) to[x] = (to[x] > line[x]) | (to[x] != to[x]) ? to[x] : line[x];
    } else {
      for (std::int64_t x = 0; x < inner; ++x) to[x] += line[x];
    }
  }
  if (op != EpilogueOp::mean) return;
  for (std::int64_t x = 0; x < inner; ++x) to[x] /= static_cast<float>(count);
}

KW_CLONES double sum(const float* x, std::int64_t count) {
  double lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += x[i + lane];
  }
  double total = 0;
  for (double lane : lanes) total += lane;
  for (; i < count; ++i) total += x[i];
  return total;
}

KW_CLONES double squared_distance(const float* x, std::int64_t count, float mean) {
  double lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += (x[i + lane] - mean) * (x[i + lane] - mean);
  }
  double total = 0;
  for (double lane : lanes) total += lane;
  for (; i < count; ++i) total += (x[i] - mean) * (x[i] - mean);
  return total;
}

// The mean is taken off first: with a small variance the scale is large, and nothing may cancel after it.
KW_CLONES void scale_about(float* x, std::int64_t count, float mean, float scale, float shift) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = (x[i] - mean) * scale + shift;
}

/// Null if the problem has no such parameter.
const float* parameter(const Problem& problem, const Buffers& buffers, std::string_view name) {
  const std::vector<ParameterSpec> specs = problem.parameters();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return static_cast<const float*>(buffers.parameters[i]);
  }
  return nullptr;
}

void normalise(const Problem& problem, std::size_t step, const Buffers& buffers, const Extents& e,
               float* values) {
  const EpilogueStep& s = problem.epilogue[step];
  const std::int64_t groups = s.op == EpilogueOp::group_norm ? s.groups : e.c;
  const std::int64_t plane = e.d * e.h * e.w, channels = e.c / groups;
  const float* scale = parameter(problem, buffers, "scale" + std::to_string(step));
  const float* shift = parameter(problem, buffers, "shift" + std::to_string(step));
  parallel_for(e.n * groups, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      float* x = values + g * channels * plane;
      const double count = static_cast<double>(channels * plane);
      const double mean = sum(x, channels * plane) / count;
      const double variance = squared_distance(x, channels * plane, static_cast<float>(mean)) / count;
      const double factor = 1 / std::sqrt(variance + s.numbers[0]);
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t channel = g % groups * channels + c;
        const double gain = factor * (scale ? scale[channel] : 1.0f);
        scale_about(x + c * plane, plane, static_cast<float>(mean), static_cast<float>(gain),
                    shift ? shift[channel] : 0.0f);
      }
    }
  });
}

// exp(x) for x <= 0, to about 1e-7: a power of two times the Taylor polynomial of what is left, which lies
// within half of ln 2. Without branches or calls, so that loops over it vectorise; NaN stays NaN.
inline float exp_of_nonpositive(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = clamped * 1.44269504f + kRound;
  const float power = shifted - kRound;
  // ln 2 in two parts, the first with few enough bits for an exact product.
  const float r = clamped - power * 0.693359375f + power * 2.12194440e-4f;
  float p = 1.0f / 5040;
  for (float inverse : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = p * r + inverse;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

constexpr std::int64_t kBlock = 256;  // positions of a plane that a softmax takes at a time

// The columns of channels, `plane` apart, at `count` <= kBlock neighbouring positions.
KW_CLONES void softmax_block(float* x, std::int64_t channels, std::int64_t plane, std::int64_t count) {
  float largest[kBlock], total[kBlock];
  std::copy(x, x + count, largest);
  std::fill(total, total + count, 0.0f);
  for (std::int64_t c = 1; c < channels; ++c) {
    const float* line = x + c * plane;
    for (std::int64_t i = 0; i < count; ++i) {
      largest[i] = (largest[i] > line[i]) | (largest[i] != largest[i]) ? largest[i] : line[i];
    }
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    float* line = x + c * plane;
    for (std::int64_t i = 0; i < count; ++i) total[i] += line[i] = exp_of_nonpositive(line[i] - largest[i]);
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    float* line = x + c * plane;
    for (std::int64_t i = 0; i < count; ++i) line[i] /= total[i];
  }
}

void softmax(const Extents& e, float* values) {
  const std::int64_t plane = e.d * e.h * e.w, blocks = (plane + kBlock - 1) / kBlock;
  parallel_for(e.n * blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * kBlock;
      softmax_block(values + i / blocks * e.c * plane + first, e.c, plane, std::min(kBlock, plane - first));
    }
  });
}

// In place: every reduced line lies at or before what it is made of, and blocks are taken in order by one
// thread each into a scratch line first.
void reduce(const EpilogueStep& step, const Extents& e, float* values) {
  const std::array<std::int64_t, 5> extents = {e.n, e.c, e.d, e.h, e.w};
  const std::size_t axis = 1 + static_cast<std::size_t>(step.axis);
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= extents[i];
  for (std::size_t i = axis + 1; i < 5; ++i) inner *= extents[i];
  std::vector<float> reduced(static_cast<std::size_t>(outer * inner));
  parallel_for(outer, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      reduce_lines(step.op, values + i * extents[axis] * inner, extents[axis], inner,
                   reduced.data() + i * inner);
    }
  });
  std::memcpy(values, reduced.data(), reduced.size() * sizeof(float));
}

// Element by element; the residual lies in the order of the values, or channels last where these are channels
// first.
void apply_to_each(const Problem& problem, std::size_t index, const Buffers& buffers, const Extents& e,
                   bool transposed, float* values) {
  const EpilogueStep& step = problem.epilogue[index];
  const float* residual = step.op == EpilogueOp::residual
                              ? parameter(problem, buffers, "residual" + std::to_string(index))
                              : nullptr;
  const std::int64_t plane = e.d * e.h * e.w;
  parallel_for(e.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t x = begin; x < end; ++x) {
      const std::int64_t at =
          transposed ? (x / (plane * e.c) * plane + x % plane) * e.c + x / plane % e.c : x;
      values[x] = static_cast<float>(apply_elementwise(step, values[x], residual ? residual[at] : 0));
    }
  });
}

void to_channels_last(const Extents& e, const float* values, float* output) {
  const std::int64_t plane = e.d * e.h * e.w;
  parallel_for(e.n * plane, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t c = 0; c < e.c; ++c)
        output[row * e.c + c] = values[(row / plane * e.c + c) * plane + row % plane];
  });
}

}  // namespace

bool epilogue_wants_channels_first(const Problem& problem, std::size_t first) {
  return std::any_of(problem.epilogue.begin() + static_cast<std::ptrdiff_t>(first), problem.epilogue.end(),
                     [](const EpilogueStep& step) { return !is_elementwise(step.op); });
}

void apply_plain_epilogue(const Problem& problem, std::size_t first, const Buffers& buffers, float* values,
                          float* output) {
  const bool transposed = problem.layout == Layout::nhwc && epilogue_wants_channels_first(problem, first);
  for (std::size_t i = first; i < problem.epilogue.size(); ++i) {
    const EpilogueStep& step = problem.epilogue[i];
    const Extents e = problem.extents_before(i);
    if (is_elementwise(step.op)) {
      apply_to_each(problem, i, buffers, e, transposed, values);
    } else if (step.op == EpilogueOp::softmax) {
      softmax(e, values);
    } else if (step.op == EpilogueOp::group_norm || step.op == EpilogueOp::instance_norm) {
      normalise(problem, i, buffers, e, values);
    } else {
      reduce(step, e, values);
    }
  }
  const Extents e = problem.output_extents();
  if (transposed) {
    to_channels_last(e, values, output);
  } else if (output != values) {
    std::memcpy(output, values, static_cast<std::size_t>(e.elements()) * sizeof(float));
  }
}

}  // namespace knobwise
