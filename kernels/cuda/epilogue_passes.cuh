// What a convolution leaves to do, in float: layout changes and epilogue passes.
//
// Compiled after the prelude (KW_*) and KW_DTYPE, the number of the problem's type (0 fp32, 1 fp16, 2 bf16).
// Each pass reads one tensor, applies `before` to every element it reads and `after` to every element it
// writes, and writes one tensor in the problem's layout. Sections (before, after) get the value, its channel
// and its index in the problem's memory order.

#ifndef KW_EPILOGUE_PASSES
#define KW_EPILOGUE_PASSES

namespace knobwise::passes {

struct Shape {
  long long c, d, h, w;
  constexpr __device__ long long plane() const { return d * h * w; }
  constexpr __device__ long long elements() const { return c * d * h * w; }
};

/// A tensor and how it is stored; with several parts the sum of as many, one after the other, each of the
/// convolution's size.
struct Source {
  const void* data;
  int dtype;
  bool nhwc;
  int parts;
};
struct Target {
  void* data;
  int dtype;
};

struct Parameters {
  const void* at[62];
};

__device__ inline float load_float(const void* data, int dtype, long long i) {
  if (dtype == 0) return static_cast<const float*>(data)[i];
  const unsigned short bits = static_cast<const unsigned short*>(data)[i];
  if (dtype == 2) return __uint_as_float(static_cast<unsigned>(bits) << 16);
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline void store_float(void* data, int dtype, long long i, float value) {
  unsigned short bits = 0;
  if (dtype == 0) {
    static_cast<float*>(data)[i] = value;
    return;
  }
  if (dtype == 1) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  } else {
    const unsigned word = __float_as_uint(value);
    bits = (value != value ? word | 0x400000 : word + 0x7FFF + (word >> 16 & 1)) >> 16;
  }
  static_cast<unsigned short*>(data)[i] = bits;
}

__device__ inline float load_source(const Source& in, long long i) {
  constexpr long long kPart = 1LL * KW_N * KW_K * KW_OD * KW_OH * KW_OW;
  float sum = load_float(in.data, in.dtype, i);
  for (int part = 1; part < in.parts; ++part) sum += load_float(in.data, in.dtype, part * kPart + i);
  return sum;
}

__device__ inline long long offset(bool nhwc, Shape shape, long long n, long long c, long long pixel) {
  return nhwc ? (n * shape.plane() + pixel) * shape.c + c : (n * shape.c + c) * shape.plane() + pixel;
}

__device__ inline long long global_thread() {
  return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline long long global_threads() {
  return static_cast<long long>(gridDim.x) * blockDim.x;
}

template <class Section>
__device__ float read(Source in, Shape shape, long long n, long long c, long long pixel, Section section) {
  const float x = load_source(in, offset(in.nhwc, shape, n, c, pixel));
  return section(x, c, offset(KW_NHWC, shape, n, c, pixel));
}

// Element by element where both sides have one order; may run in place.
template <class Section>
__device__ void map_same(Source in, Target out, Shape shape, Section section) {
  const long long count = KW_N * shape.elements();
  for (long long i = global_thread(); i < count; i += global_threads()) {
    const long long c = KW_NHWC ? i % shape.c : i / shape.plane() % shape.c;
    store_float(out.data, out.dtype, i, section(load_source(in, i), c, i));
  }
}

// Between the two orders by way of shared memory, 32 channels x 32 pixels at a time, so that both sides are
// contiguous. `out_nhwc` is the order to write; blocks of 32 x 8 threads stride over the tiles.
template <class Section>
__device__ void map_transposed(Source in, Target out, bool out_nhwc, Shape shape, Section section) {
  __shared__ float tile[32][33];
  const long long rows = out_nhwc ? shape.c : shape.plane(), columns = out_nhwc ? shape.plane() : shape.c;
  const long long row_tiles = (rows + 31) / 32, column_tiles = (columns + 31) / 32;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (long long t = blockIdx.x; t < KW_N * row_tiles * column_tiles; t += gridDim.x) {
    const long long n = t / (row_tiles * column_tiles);
    const long long row0 = t / column_tiles % row_tiles * 32, column0 = t % column_tiles * 32;
    __syncthreads();
    for (int i = y; i < 32; i += 8) {  // the source has rows x columns
      if (row0 + i < rows && column0 + x < columns) {
        tile[i][x] = load_source(in, (n * rows + row0 + i) * columns + column0 + x);
      }
    }
    __syncthreads();
    for (int i = y; i < 32; i += 8) {  // the target has columns x rows
      if (column0 + i >= columns || row0 + x >= rows) continue;
      const long long index = (n * columns + column0 + i) * rows + row0 + x;
      store_float(out.data, out.dtype, index, section(tile[x][i], out_nhwc ? row0 + x : column0 + i, index));
    }
  }
}

enum class Reduction { min, max, mean, sum };
enum class Axis { channel, depth, height, width };

// NaN in any element makes the result NaN.
template <class Before, class After>
__device__ void reduce(Source in, Target out, Shape shape, Axis axis, Reduction reduction, Before before,
                       After after) {
  Shape to = shape;
  long long& reduced = axis == Axis::channel  ? to.c
                       : axis == Axis::depth  ? to.d
                       : axis == Axis::height ? to.h
                                              : to.w;
  const long long extent = reduced;
  reduced = 1;
  const long long step = axis == Axis::depth ? shape.h * shape.w : axis == Axis::height ? shape.w : 1;
  for (long long i = global_thread(); i < KW_N * to.elements(); i += global_threads()) {
    const long long n = i / to.elements();
    const long long c = KW_NHWC ? i % to.c : i / to.plane() % to.c;
    const long long out_pixel = KW_NHWC ? i / to.c % to.plane() : i % to.plane();
    const long long d = out_pixel / (to.h * to.w), h = out_pixel / to.w % to.h, w = out_pixel % to.w;
    const long long pixel = (d * shape.h + h) * shape.w + w;
    float result = 0;
    for (long long j = 0; j < extent; ++j) {
      const float x = axis == Axis::channel ? read(in, shape, n, j, pixel, before)
                                            : read(in, shape, n, c, pixel + j * step, before);
      if (j == 0) {
        result = x;
      } else if (reduction == Reduction::min) {
        if (x < result || x != x) result = x;
      } else if (reduction == Reduction::max) {
        if (x > result || x != x) result = x;
      } else {
        result += x;
      }
    }
    if (reduction == Reduction::mean) result /= static_cast<float>(extent);
    store_float(out.data, out.dtype, i, after(result, c, i));
  }
}

template <class Before, class After>
__device__ void softmax(Source in, Target out, Shape shape, Before before, After after) {
  for (long long i = global_thread(); i < KW_N * shape.plane(); i += global_threads()) {
    const long long n = i / shape.plane(), pixel = i % shape.plane();
    float largest = read(in, shape, n, 0, pixel, before), sum = 0;
    for (long long c = 1; c < shape.c; ++c) {
      const float x = read(in, shape, n, c, pixel, before);
      if (x > largest || x != x) largest = x;
    }
    for (long long c = 0; c < shape.c; ++c) sum += expf(read(in, shape, n, c, pixel, before) - largest);
    for (long long c = 0; c < shape.c; ++c) {
      const long long index = offset(KW_NHWC, shape, n, c, pixel);
      const float x = expf(read(in, shape, n, c, pixel, before) - largest) / sum;
      store_float(out.data, out.dtype, index, after(x, c, index));
    }
  }
}

__device__ inline float block_sum(float mine) {
  __shared__ float warps[32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) sum += warps[i];
  return sum;
}

// One (sample, group) a block; the variance in a pass of its own, so that a large mean cancels nothing.
template <class Before, class After>
__device__ void normalise(Source in, Target out, Shape shape, long long groups, float epsilon,
                          const void* scale, const void* shift, Before before, After after) {
  const long long channels = shape.c / groups, size = channels * shape.plane();
  const long long n = blockIdx.x / groups, first = blockIdx.x % groups * channels;
  // Neighbouring threads read neighbouring elements in either order.
  const auto channel_of = [&](long long i) { return first + (in.nhwc ? i % channels : i / shape.plane()); };
  const auto pixel_of = [&](long long i) { return in.nhwc ? i / channels : i % shape.plane(); };
  float sum = 0, squares = 0;
  for (long long i = threadIdx.x; i < size; i += blockDim.x) {
    sum += read(in, shape, n, channel_of(i), pixel_of(i), before);
  }
  const float mean = block_sum(sum) / static_cast<float>(size);
  for (long long i = threadIdx.x; i < size; i += blockDim.x) {
    const float x = read(in, shape, n, channel_of(i), pixel_of(i), before) - mean;
    squares += x * x;
  }
  const float inverse = 1 / sqrtf(block_sum(squares) / static_cast<float>(size) + epsilon);
  for (long long i = threadIdx.x; i < size; i += blockDim.x) {
    const long long c = channel_of(i), index = offset(KW_NHWC, shape, n, c, pixel_of(i));
    float x = (read(in, shape, n, c, pixel_of(i), before) - mean) * inverse;
    if (scale) x = x * load_float(scale, KW_DTYPE, c) + load_float(shift, KW_DTYPE, c);
    store_float(out.data, out.dtype, index, after(x, c, index));
  }
}

// Weights [k][c][t][r][s] as [k][t][r][s][c].
__device__ inline void pack_weights(const void* weights, void* packed) {
  constexpr long long kTaps = 1LL * KW_T * KW_R * KW_S, kChannels = KW_C / KW_GROUPS;
  for (long long i = global_thread(); i < KW_K * kTaps * kChannels; i += global_threads()) {
    const long long c = i % kChannels, tap = i / kChannels % kTaps, k = i / (kChannels * kTaps);
    store_float(packed, KW_DTYPE, i, load_float(weights, KW_DTYPE, (k * kChannels + c) * kTaps + tap));
  }
}

}  // namespace knobwise::passes

using namespace knobwise::passes;

#endif

#undef KW_FN
#define KW_FN __device__ inline
