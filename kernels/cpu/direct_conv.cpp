// Direct convolution for processors. One task computes a tile of output positions for a block of output
// channels: it copies the input under the tile, zero padded, into a buffer of its thread, then keeps
// channels x positions in vector registers over the whole reduction.
//
// The positions of a tile are numbered along its rows with the pitch of the *copy*, so that the inputs of an
// output lie at a fixed distance for every filter tap and vectors run on across row ends: of every kPitch
// positions kTileW are outputs, the rest is computed and dropped. Strided inputs are split by phase to that
// end.
//
// Compiled at run time for one problem and one configuration; see direct_conv_family.cpp for the EPILOGUE_*
// constants and the functions elementwise_0, _1 and _2 that precede this text.
namespace {

// The register tile.
constexpr int kVectors = KNOB_pixels_per_thread / kLanes;
constexpr int kChannels = KNOB_channels_per_thread;
constexpr int kUnroll = KNOB_unroll;

// The problem. Operands are pairs of channels in bf16, single channels in fp32.
constexpr Index kOut = KW_K, kGroups = KW_GROUPS, kC = KW_C / kGroups, kK = kOut / kGroups;
constexpr Index kTaps = static_cast<Index>(KW_T) * KW_R * KW_S;
constexpr Index kInRow = KW_W, kInPlane = KW_H * kInRow, kInVolume = KW_D * kInPlane;
constexpr Index kOutRow = KW_OW, kOutPlane = KW_OH * kOutRow;
constexpr Reduction kReduction = static_cast<Reduction>(EPILOGUE_REDUCTION);
constexpr bool kReduce = kReduction != Reduction::none;
constexpr Index kOutVolume = (kReduce ? 1 : KW_OD) * kOutPlane;

// The task's tile.
constexpr Index kTileW = least(KNOB_tile_w, KW_OW), kTileH = least(KNOB_tile_h, KW_OH);
constexpr Index kTileD = least(KNOB_tile_d, KW_OD);
constexpr Index kTilesW = ceil_div(KW_OW, kTileW), kTilesH = ceil_div(KW_OH, kTileH);
constexpr Index kTilesD = ceil_div(KW_OD, kTileD), kTiles = kTilesD * kTilesH * kTilesW;
constexpr Index kBlock = least(KNOB_channels_per_block, kK), kBlocks = ceil_div(kK, kBlock);
constexpr Index kStep = least(KNOB_input_channels_per_step, kC);
constexpr bool kOneStep = kStep == kC;

#if defined(KNOB_precision_bf16)
typedef unsigned Operand;
constexpr Index kPack = 2;
#else
typedef float Operand;
constexpr Index kPack = 1;
#endif
constexpr Index kDepth = ceil_div(kC, kPack), kStepDepth = ceil_div(kStep, kPack);

// The copy of the input: [channel or pair][depth][row phase][column phase][row][column].
constexpr Index reach(Index filter, Index dilation, Index stride) {
  return (filter - 1) * dilation / stride;
}
constexpr Index phases(Index filter, Index dilation, Index stride) {
  return least(stride, (filter - 1) * dilation + 1);
}
constexpr Index kPitch = kTileW + reach(KW_S, KW_DILATION_W, KW_STRIDE_W);
constexpr Index kRows = kTileH + reach(KW_R, KW_DILATION_H, KW_STRIDE_H);
constexpr Index kSlices = (kTileD - 1) * KW_STRIDE_D + (KW_T - 1) * KW_DILATION_D + 1;
constexpr Index kPhasesW = phases(KW_S, KW_DILATION_W, KW_STRIDE_W);
constexpr Index kPhasesH = phases(KW_R, KW_DILATION_H, KW_STRIDE_H);
constexpr Index kPlane = kRows * kPitch;
constexpr Index kSlice = kPhasesH * kPhasesW * kPlane;
constexpr Index kChannel = kSlices * kSlice;

// Positions of a full tile, in vectors, and what they leave for a narrower register tile.
constexpr Index kPositions = (kTileH - 1) * kPitch + kTileW;
constexpr int kRestVectors = ceil_div(kPositions, kLanes) % kVectors;
constexpr int kRestChannels = kK % kChannels;
constexpr Index kSumPitch = ceil_div(kPositions, kLanes* kVectors) * kLanes * kVectors;

// A fold keeps every channel of the tile until the chain has combined depths or channels.
constexpr bool kFold = kReduce || EPILOGUE_SOFTMAX;
constexpr Index kSumRows = kOneStep ? kChannels : kBlock * kTileD;
constexpr Index kFoldRows = kFold ? (EPILOGUE_SOFTMAX ? kOut : kBlock) : 0;

// The last vectors of the last channel read past the copy's end.
alignas(64) thread_local Operand copy[kStepDepth * kChannel + kLanes * kVectors];
alignas(64) thread_local float sums[kSumRows * kSumPitch];
alignas(64) thread_local float folded[kFoldRows * kSumPitch + 1];

struct Taps {
  int offset[kTaps];
};
constexpr Taps tap_offsets() {
  Taps taps{};
  for (Index t = 0, i = 0; t < KW_T; ++t)
    for (Index r = 0; r < KW_R; ++r)
      for (Index s = 0; s < KW_S; ++s, ++i) {
        const Index y = r * KW_DILATION_H, x = s * KW_DILATION_W;
        taps.offset[i] = static_cast<int>(t * KW_DILATION_D * kSlice +
                                          (y % KW_STRIDE_H * kPhasesW + x % KW_STRIDE_W) * kPlane +
                                          y / KW_STRIDE_H * kPitch + x / KW_STRIDE_W);
      }
  return taps;
}
constexpr Taps kTap = tap_offsets();

#if defined(KNOB_precision_bf16)
typedef Vector Loaded;
KW_FN Loaded load_operands(const Operand* from) {
  return load(reinterpret_cast<const float*>(from));
}
KW_FN Loaded broadcast_operand(Operand value) {
  typedef unsigned Words __attribute__((vector_size(kLanes * 4)));
  return reinterpret_cast<Vector>(value - Words{});
}
KW_FN void multiply_add(Vector& sum, Loaded a, Loaded b) {
  sum = dot_product_bf16(sum, a, b);
}
#else
KW_FN Vector load_operands(const Operand* from) {
  return load(from);
}
KW_FN Vector broadcast_operand(Operand value) {
  return broadcast(value);
}
KW_FN void multiply_add(Vector& sum, Vector a, Vector b) {
  sum += a * b;
}
#endif

// out[k][position] = start[k], or itself where `start` is null, plus the sum over `depth` channels and all
// taps.
template <int K, int V>
__attribute__((noinline)) void multiply(const Operand* in, const Operand* weights, Index depth,
                                        const float* start, float* out) {
  Vector sum[K][V];
#pragma GCC unroll 32
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v)
      sum[k][v] = start ? broadcast(start[k]) : load(out + k * kSumPitch + v * kLanes);
  for (Index c = 0; c < depth; ++c) {
#pragma GCC unroll kUnroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const Operand* x = in + kTap.offset[tap];
      Vector value[V];
#pragma GCC unroll 32
      for (int v = 0; v < V; ++v) value[v] = load_operands(x + v * kLanes);
#pragma GCC unroll 32
      for (int k = 0; k < K; ++k) {
        const Vector weight = broadcast_operand(weights[k]);
#pragma GCC unroll 32
        for (int v = 0; v < V; ++v) multiply_add(sum[k][v], weight, value[v]);
      }
      weights += K;
    }
    in += kChannel;
  }
#pragma GCC unroll 32
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) store(out + k * kSumPitch + v * kLanes, sum[k][v]);
}

// The outputs of a tile: its first position and its extents inside the output.
struct Tile {
  Index d, h, w, depth, rows, columns;
};

Tile tile_at(Index index) {
  const Index w = index % kTilesW * kTileW, h = index / kTilesW % kTilesH * kTileH;
  const Index d = index / (kTilesW * kTilesH) * kTileD;
  return {d, h, w, least(kTileD, KW_OD - d), least(kTileH, KW_OH - h), least(kTileW, KW_OW - w)};
}

// All positions of one slice for K channels.
template <int K>
void multiply_slice(const Tile& tile, const Operand* in, const Operand* weights, Index depth,
                    const float* start, float* out) {
  const Index vectors = ceil_div((tile.rows - 1) * kPitch + tile.columns, kLanes);
  Index v = 0;
  for (; v + kVectors <= vectors; v += kVectors)
    multiply<K, kVectors>(in + v * kLanes, weights, depth, start, out + v * kLanes);
  if (v == vectors) return;
  if constexpr (kRestVectors > 0)
    if (vectors - v <= kRestVectors)
      return multiply<K, kRestVectors>(in + v * kLanes, weights, depth, start, out + v * kLanes);
  multiply<K, kVectors>(in + v * kLanes, weights, depth, start, out + v * kLanes);
}

// One row of one phase: every stride-th input from column x on (x may lie outside), zeros beyond the row.
struct Span {
  Index first, last;
};
KW_FN Span inside(Index x) {
  const Index last = x >= kInRow ? 0 : least(kPitch, ceil_div(kInRow - x, KW_STRIDE_W));
  return {least(last, x < 0 ? ceil_div(-x, KW_STRIDE_W) : 0), last};
}

#if defined(KNOB_precision_bf16)
// Rounded to nearest even; NaN stays NaN.
KW_FN unsigned bf16_bits(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const unsigned rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return value != value ? 0x7fc0 : rounded;
}
#endif

// `rows` holds the rows of kPack channels; null where there is no such channel.
KW_FN void copy_row(const float* const (&rows)[kPack], Index x, Operand* to) {
  const Span span = inside(x);
  for (Index i = 0; i < span.first; ++i) to[i] = 0;
#if defined(KNOB_precision_bf16)
  const float *low = rows[0] + x, *high = rows[1] ? rows[1] + x : nullptr;
  if (high)
    for (Index i = span.first; i < span.last; ++i)
      to[i] = bf16_bits(low[i * KW_STRIDE_W]) | bf16_bits(high[i * KW_STRIDE_W]) << 16;
  else
    for (Index i = span.first; i < span.last; ++i) to[i] = bf16_bits(low[i * KW_STRIDE_W]);
#else
  const float* row = rows[0] + x;
  for (Index i = span.first; i < span.last; ++i) to[i] = row[i * KW_STRIDE_W];
#endif
  for (Index i = span.last; i < kPitch; ++i) to[i] = 0;
}

// One slice of one channel (or pair), all phases.
void copy_slice(const float* const (&planes)[kPack], Index d, const Tile& tile, Operand* to) {
  const Index rows = tile.rows + kRows - kTileH, x = tile.w * KW_STRIDE_W - KW_PAD_W;
  for (Index y = 0; y < rows; ++y)
    for (Index py = 0; py < kPhasesH; ++py) {
      const Index h = (tile.h + y) * KW_STRIDE_H - KW_PAD_H + py;
      const bool outside = d < 0 || d >= KW_D || h < 0 || h >= KW_H;
      for (Index px = 0; px < kPhasesW; ++px) {
        Operand* row = to + (py * kPhasesW + px) * kPlane + y * kPitch;
        if (outside) {
          for (Index i = 0; i < kPitch; ++i) row[i] = 0;
          continue;
        }
        const float* sources[kPack];
        for (Index p = 0; p < kPack; ++p)
          sources[p] = planes[p] ? planes[p] + d * kInPlane + h * kInRow : nullptr;
        copy_row(sources, x + px, row);
      }
    }
}

// Channels [0, channels) of `input`, under the tile and its halo.
void copy_input(const float* input, const Tile& tile, Index channels) {
  for (Index c = 0; c < channels; c += kPack) {
    const float* planes[kPack];
    for (Index p = 0; p < kPack; ++p) planes[p] = c + p < channels ? input + (c + p) * kInVolume : nullptr;
    for (Index z = 0; z < kSlices; ++z)
      copy_slice(planes, tile.d * KW_STRIDE_D - KW_PAD_D + z, tile, copy + c / kPack * kChannel + z * kSlice);
  }
}

// Writes whole rows that follow one another in memory, past the caches but for the ends.
template <class F>
void stream_rows(const float* from, Index rows, float* to, F f) {
  alignas(64) float line[kTileH * kTileW + kLanes];
  const Index shift = static_cast<Index>(reinterpret_cast<unsigned long long>(to) / sizeof(float) % kLanes);
  float* values = line + shift;
  for (Index y = 0; y < rows; ++y)
    for (Index x = 0; x < kTileW; ++x) values[y * kTileW + x] = f(from[y * kPitch + x]);
  const Index count = rows * kTileW;
  Index i = 0;
  for (; i < count && (i + shift) % kLanes; ++i) to[i] = values[i];
  for (; i + kLanes <= count; i += kLanes) stream(to + i, values + i);
  for (; i < count; ++i) to[i] = values[i];
}

// Writes one slice of `channels` channels; `out` points at the tile's first position in the first of them.
template <class F>
void write_slice(const Tile& tile, const float* from, Index channels, float* out, F f) {
  for (Index k = 0; k < channels; ++k, from += kSumPitch, out += kOutVolume) {
    if constexpr (KNOB_streaming_stores && kTileW == kOutRow) {
      stream_rows(from, tile.rows, out, f);
      continue;
    }
    for (Index y = 0; y < tile.rows; ++y)
      if (tile.columns == kTileW)  // a constant count vectorises better
        for (Index x = 0; x < kTileW; ++x) out[y * kOutRow + x] = f(from[y * kPitch + x]);
      else
        for (Index x = 0; x < tile.columns; ++x) out[y * kOutRow + x] = f(from[y * kPitch + x]);
  }
}

// Joins one slice of finished sums to what is kept of the tile.
void fold_slice(const float* from, Index channels, float* to, bool first) {
  for (Index i = 0; i < channels * kSumPitch; ++i) {
    const float value = elementwise_0(from[i]);
    to[i] = first ? value : combine<kReduction>(to[i], value);
  }
}

// Finishes what fold_slice() kept and writes it; `out` points at the tile's first position.
void write_folded(const Tile& tile, Index channels, float* out) {
  const auto reduced = [](float x) {
    if constexpr (!kReduce) return x;
    return elementwise_1(kReduction == Reduction::mean ? x / static_cast<float>(KW_OD) : x);
  };
  if constexpr (EPILOGUE_SOFTMAX) {
    if constexpr (kReduce)
      for (Index i = 0; i < channels * kSumPitch; ++i) folded[i] = reduced(folded[i]);
    softmax(folded, channels, kSumPitch, (tile.rows - 1) * kPitch + tile.columns, elementwise_2);
    write_slice(tile, folded, channels, out, [](float x) { return x; });
  } else {
    write_slice(tile, folded, channels, out, reduced);
  }
}

struct Tensors {
  const float* input;
  const Operand* packed;
  const float* bias;
  float* output;
};

// One slice of the channels from `k` on within group `g`: at most kChannels of them.
void compute_slice(const Tensors& tensors, const Tile& tile, Index g, Index k, Index c, Index channels,
                   Index z, float* sum) {
  const Index width = least(kChannels, kK - k);
  float start[kChannels];
  for (Index i = 0; i < width; ++i) start[i] = tensors.bias ? tensors.bias[g * kK + k + i] : 0.0f;
  const Operand* weights = tensors.packed + ((g * kK + k) * kDepth + c / kPack * width) * kTaps;
  const Operand* in = copy + z * KW_STRIDE_D * kSlice;
  const Index depth = ceil_div(channels, kPack);
  if constexpr (kRestChannels > 0)
    if (width == kRestChannels)
      return multiply_slice<kRestChannels>(tile, in, weights, depth, c == 0 ? start : nullptr, sum);
  multiply_slice<kChannels>(tile, in, weights, depth, c == 0 ? start : nullptr, sum);
}

// Channels [first, last) of group `g` over the tile; `out` points at the tile's first position in channel 0
// of the group.
void compute_tile(const Tensors& tensors, const Tile& tile, Index n, Index g, Index first, Index last,
                  float* out) {
  for (Index c = 0; c < kC; c += kStep) {
    const Index channels = least(kStep, kC - c);
    copy_input(tensors.input + (n * KW_C + g * kC + c) * kInVolume, tile, channels);
    for (Index z = 0; z < tile.depth; ++z)
      for (Index k = first; k < last; k += kChannels) {
        float* sum = kOneStep ? sums : sums + (z * kBlock + k - first) * kSumPitch;
        compute_slice(tensors, tile, g, k, c, channels, z, sum);
        if (c + kStep < kC) continue;
        const Index width = least(kChannels, last - k);
        if constexpr (kFold)
          fold_slice(sum, width, folded + (EPILOGUE_SOFTMAX ? g * kK + k : k - first) * kSumPitch, z == 0);
        else
          write_slice(tile, sum, width, out + k * kOutVolume + z * kOutPlane, elementwise_0);
      }
  }
}

// Where the tile begins in channel `channel` of sample `n`.
float* output_at(float* output, Index n, Index channel, const Tile& tile) {
  return output + (n * kOut + channel) * kOutVolume + (kReduce ? 0 : tile.d * kOutPlane) + tile.h * kOutRow +
         tile.w;
}

void compute_block(const Tensors& tensors, const Tile& tile, Index n, Index g, Index block) {
  const Index first = block * kBlock, last = least(kK, first + kBlock);
  compute_tile(tensors, tile, n, g, first, last, output_at(tensors.output, n, g * kK, tile));
  if constexpr (kFold && !EPILOGUE_SOFTMAX)
    write_folded(tile, last - first, output_at(tensors.output, n, g * kK + first, tile));
}

}  // namespace

// arguments: weights, packed. A task packs one register tile's channels: [channel or pair][tap][output
// channel].
extern "C" void pack_weights(void* const* arguments, long long task) {
  constexpr Index tiles = ceil_div(kK, kChannels), filter = kC * kTaps;
  const Index g = task / tiles, first = task % tiles * kChannels, width = least(kChannels, kK - first);
  const float* weights = static_cast<const float*>(arguments[0]) + (g * kK + first) * filter;
  Operand* to = static_cast<Operand*>(arguments[1]) + (g * kK + first) * kDepth * kTaps;
  for (Index c = 0; c < kC; c += kPack)
    for (Index tap = 0; tap < kTaps; ++tap)
      for (Index k = 0; k < width; ++k) {
        const float* from = weights + k * filter + c * kTaps + tap;
#if defined(KNOB_precision_bf16)
        *to++ = bf16_bits(from[0]) | (c + 1 < kC ? bf16_bits(from[kTaps]) << 16 : 0);
#else
        *to++ = *from;
#endif
      }
}

// arguments: input, packed, output, then bias, scale and shift as far as there are any. Tasks run over
// samples, tiles, groups and channel blocks, the last fastest; a softmax takes the channels of a tile in one
// task, a norm the tiles of a channel block.
extern "C" void direct_conv(void* const* arguments, long long task) {
  const Tensors tensors{static_cast<const float*>(arguments[0]), static_cast<const Operand*>(arguments[1]),
                        KW_BIAS ? static_cast<const float*>(arguments[3]) : nullptr,
                        static_cast<float*>(arguments[2])};
#if EPILOGUE_SOFTMAX
  const Tile tile = tile_at(task % kTiles);
  const Index n = task / kTiles;
  for (Index g = 0; g < kGroups; ++g) compute_block(tensors, tile, n, g, 0);
  write_folded(tile, kOut, output_at(tensors.output, n, 0, tile));
#elif EPILOGUE_NORM
  const Index block = task % kBlocks, g = task / kBlocks % kGroups, n = task / (kBlocks * kGroups);
  for (Index tile = 0; tile < kTiles; ++tile) compute_block(tensors, tile_at(tile), n, g, block);
  const Index last = g * kK + least(kK, (block + 1) * kBlock);
  for (Index k = g * kK + block * kBlock; k < last; k += EPILOGUE_NORM_CHANNELS) {
    const float* scale =
        EPILOGUE_NORM_AFFINE ? static_cast<const float*>(arguments[3 + KW_BIAS]) + k : nullptr;
    const float* shift =
        EPILOGUE_NORM_AFFINE ? static_cast<const float*>(arguments[4 + KW_BIAS]) + k : nullptr;
    normalise(tensors.output + (n * kOut + k) * kOutVolume, EPILOGUE_NORM_CHANNELS, kOutVolume,
              EPILOGUE_NORM_EPSILON, scale, shift, elementwise_2);
  }
#else
  const Index block = task % kBlocks, g = task / kBlocks % kGroups;
  const Index tile = task / (kBlocks * kGroups) % kTiles, n = task / (kBlocks * kGroups * kTiles);
  compute_block(tensors, tile_at(tile), n, g, block);
#endif
}
