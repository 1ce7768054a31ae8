// implicit_gemm: the tiling as constants, and entries, the form that operands have in shared memory.
//
// Compiled by NVRTC after the prelude (KW_* dimensions, KNOB_* knobs), the tiling that the host derived
// (KW_ROW_PAD, ...), matrix_operands.cuh and implicit_gemm_geometry.h, which says where everything lies.

namespace knobwise::implicit_gemm {

/// What is written: elements of the output, or sums of a part of the reduction.
#if KNOB_split_k > 1
using Result = float;
#else
using Result = Element;
#endif

constexpr KW_HOST_DEVICE Geometry geometry() {
  return Geometry{KW_N,
                  KW_C,
                  KW_K,
                  KW_GROUPS,
                  {KW_D, KW_H, KW_W},
                  {KW_T, KW_R, KW_S},
                  {KW_STRIDE_D, KW_STRIDE_H, KW_STRIDE_W},
                  {KW_PAD_D, KW_PAD_H, KW_PAD_W},
                  {KW_DILATION_D, KW_DILATION_H, KW_DILATION_W},
                  {KW_OD, KW_OH, KW_OW},
                  {KNOB_tile_d, KNOB_tile_h, KNOB_tile_w},
                  KNOB_channels_per_block,
                  KNOB_warp_positions,
                  KNOB_warp_channels,
                  KNOB_input_channels_per_step,
                  KNOB_tiles_per_block,
                  KW_WAVE_BLOCKS,
                  KNOB_split_k,
                  KNOB_stages,
                  KNOB_producer_warps,
                  KNOB_store_width,
                  KNOB_store_channels,
                  static_cast<int>(sizeof(Result)),
                  KW_NHWC,
                  KNOB_vector_width,
                  KW_WORD_ELEMENTS,
                  KW_SPLITS,
                  KW_GATHER_TAPS,
                  KW_TAPS_OUTERMOST,
                  KW_WEIGHTS_SHARED,
                  KW_WEIGHTS_RESIDENT,
                  KW_WARPGROUP,
                  KW_CHANNELS_FIRST,
                  KW_EPILOGUE_REDUCE_DEPTH,
                  KW_WALK_INPUTS,
                  KW_ROW_PAD,
                  KW_PLANE_PAD};
}
static_assert(geometry().consistent(), "the knobs do not fit together");

constexpr int kThreads = geometry().threads(), kConsumers = geometry().consumers();
constexpr int kStagers = geometry().stagers();
constexpr int kSplits = KW_SPLITS, kVector = geometry().vector_elements(), kWidth = KNOB_vector_width;
constexpr int kBlockChannels = KNOB_channels_per_block;
constexpr int kColumnTiles = geometry().column_tiles();                                            // of a warp
constexpr int kPositions = geometry().lane_positions(), kChannels = geometry().lane_channels();  // of a lane
constexpr int kItemEntries = geometry().item_entries();
constexpr int kBuffers = geometry().input_buffers();
constexpr int kEntryBytes = geometry().entry_bytes();
constexpr int kGroupInputs = geometry().inputs_per_group(), kGroupOutputs = geometry().outputs_per_group();
constexpr long long kInPlane = 1LL * KW_D * KW_H * KW_W;
constexpr int kResultD = KW_EPILOGUE_REDUCE_DEPTH ? 1 : KW_OD;
constexpr long long kOutPlane = 1LL * kResultD * KW_OH * KW_OW;
/// Offsets within one sample (channels last) or one sample's group of channels (channels first).
using InOffset = OffsetType<(kInPlane * (KW_NHWC ? KW_C : kGroupInputs) >= (1LL << 31))>::type;
using OutOffset = OffsetType<(kOutPlane * (KW_NHWC ? KW_K : kGroupOutputs) >= (1LL << 31))>::type;

constexpr int kPaddedChannels = geometry().padded_channels();
/// Floats after the packed weights: bias, then the norm's scale and shift.
constexpr long long kPackedBias = geometry().packed_weight_bytes() / 4;
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
constexpr long long kPackedScale = kPackedBias + KW_BIAS * kPaddedChannels;
constexpr long long kPackedShift = kPackedScale + kPaddedChannels;
#endif

/// An entry: the two operands of every term, the largest term first. With fp16_e5m2 the second term is one operand of the
/// errors of the first and one of the values themselves, in e5m2; in the weights the other way round, so that one
/// instruction multiplies errors by values and values by errors.
struct Entry {
  unsigned words[2 * kSplits];
};

template <class Value>
__device__ __forceinline__ Entry make_entry(const Value (&values)[kVector]) {
  Entry entry;
#if KNOB_precision_fp16_e5m2
  float errors[kVector];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    entry.words[i] = pair_word(values[2 * i], values[2 * i + 1]);
    errors[2 * i] = (values[2 * i] - word_value<0>(entry.words[i])) * kErrorScale;
    errors[2 * i + 1] = (values[2 * i + 1] - word_value<1>(entry.words[i])) * kErrorScale;
  }
  entry.words[2] = round_errors(errors[0], errors[1], errors[2], errors[3]);
  entry.words[3] = round_errors(values[0], values[1], values[2], values[3]);
#else
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Value a = values[i * KW_WORD_ELEMENTS];
    const Value b = KW_WORD_ELEMENTS == 2 ? values[i * KW_WORD_ELEMENTS + 1] : Value{0};
    entry.words[i] = pair_word(a, b);
    if constexpr (kSplits == 2)
      entry.words[2 + i] = pair_word(a - word_value<0>(entry.words[i]), b - word_value<1>(entry.words[i]));
  }
#endif
  return entry;
}

__device__ __forceinline__ Entry load_entry(const void* memory) {
  Entry entry;
  if constexpr (kSplits == 2) {
    const uint4 v = *static_cast<const uint4*>(memory);
    entry.words[0] = v.x, entry.words[1] = v.y, entry.words[2] = v.z, entry.words[3] = v.w;
  } else {
    const uint2 v = *static_cast<const uint2*>(memory);
    entry.words[0] = v.x, entry.words[1] = v.y;
  }
  return entry;
}

__device__ __forceinline__ void store_entry(void* memory, const Entry& entry) {
  if constexpr (kSplits == 2)
    *static_cast<uint4*>(memory) = make_uint4(entry.words[0], entry.words[1], entry.words[2], entry.words[3]);
  else
    *static_cast<uint2*>(memory) = make_uint2(entry.words[0], entry.words[1]);
}

}  // namespace knobwise::implicit_gemm
