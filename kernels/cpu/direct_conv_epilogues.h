// Epilogue steps that combine several outputs, on arrays of floats. Part of the generated source of
// direct_conv.
namespace {

enum class Reduction { none, min, max, mean, sum };

template <Reduction kind>
KW_FN float combine(float a, float b) {
  if constexpr (kind == Reduction::min) return lesser(a, b);
  if constexpr (kind == Reduction::max) return greater(a, b);
  return a + b;
}

// Adds up f(data[i]): single precision within a chunk, in many lanes, double between chunks, so that the
// error does not grow with the count.
template <class F>
double sum_of(const float* data, Index count, F f) {
  constexpr Index chunk = 2048, lanes = 64;
  double total = 0;
  for (Index first = 0; first < count; first += chunk) {
    const Index size = least(chunk, count - first);
    float partial[lanes] = {};
    Index i = 0;
    for (; i + lanes <= size; i += lanes)
      for (Index j = 0; j < lanes; ++j) partial[j] += f(data[first + i + j]);
    for (; i < size; ++i) partial[i % lanes] += f(data[first + i]);
    for (Index j = 0; j < lanes; ++j) total += partial[j];
  }
  return total;
}

// Normalises `channels` channels of `positions` contiguous floats each by their common mean and variance,
// then scales and shifts each channel (null: by one and zero). The variance is taken of differences from the
// mean: E[x^2] - E[x]^2 cancels.
template <class After>
void normalise(float* data, Index channels, Index positions, double epsilon, const float* scale,
               const float* shift, After after) {
  const Index count = channels * positions;
  const float mean = static_cast<float>(sum_of(data, count, [](float x) { return x; }) / count);
  const double correction = sum_of(data, count, [mean](float x) { return x - mean; }) / count;
  const double squares = sum_of(data, count, [mean](float x) { return (x - mean) * (x - mean); }) / count;
  const double variance = squares - correction * correction;
  const double factor = 1 / __builtin_sqrt(variance + epsilon);
  for (Index c = 0; c < channels; ++c) {
    const float slope = static_cast<float>(scale ? factor * scale[c] : factor);
    const float offset = static_cast<float>((shift ? shift[c] : 0.0) - correction * slope);
    float* row = data + c * positions;
    for (Index i = 0; i < positions; ++i) row[i] = after((row[i] - mean) * slope + offset);
  }
}

// Softmax over `channels` rows, `pitch` apart, of `count` floats each.
template <class After>
void softmax(float* data, Index channels, Index pitch, Index count, After after) {
  constexpr Index width = 64;
  for (Index first = 0; first < count; first += width) {
    const Index size = least(width, count - first);
    float top[width], total[width] = {};
    float* column = data + first;
    for (Index i = 0; i < size; ++i) top[i] = column[i];
    for (Index c = 1; c < channels; ++c)
      for (Index i = 0; i < size; ++i) top[i] = greater(top[i], column[c * pitch + i]);
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < size; ++i) {
        const float e = exponential(column[c * pitch + i] - top[i]);
        column[c * pitch + i] = e;
        total[i] += e;
      }
    for (Index i = 0; i < size; ++i) total[i] = 1 / total[i];
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < size; ++i) column[c * pitch + i] = after(column[c * pitch + i] * total[i]);
  }
}

// Removes an axis: `extent` slabs of `inner` floats become one.
template <Reduction kind>
void reduce_axis(const float* in, float* out, Index extent, Index inner) {
  constexpr Index width = 512;
  for (Index first = 0; first < inner; first += width) {
    const Index size = least(width, inner - first);
    float result[width];
    for (Index i = 0; i < size; ++i) result[i] = in[first + i];
    for (Index e = 1; e < extent; ++e)
      for (Index i = 0; i < size; ++i) result[i] = combine<kind>(result[i], in[e * inner + first + i]);
    for (Index i = 0; i < size; ++i)
      out[first + i] = kind == Reduction::mean ? result[i] / static_cast<float>(extent) : result[i];
  }
}

}  // namespace
