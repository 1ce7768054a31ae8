// Convolution as a matrix product on Hopper's warpgroup instructions: one warpgroup stages the input, rounded
// and split, and has the copy engine bring the weights, and the input too where it lies in memory as it is
// multiplied; the others multiply from shared memory.
//
// Compiled by NVRTC for sm_90a after the prelude (KW_* dimensions, KNOB_* knobs), the tiling that the host
// derived, the epilogue's functions (kw_before, kw_between), matrix_operands.cuh, the instruction's wrapper
// (kw_multiply), implicit_gemm_sm90_geometry.h, which says where everything lies, implicit_gemm_sm90_staging.cuh and
// implicit_gemm_sm90_output.cuh.

namespace knobwise::implicit_gemm_sm90 {

/// Queues the products of one unit.
__device__ __forceinline__ void multiply_unit(Sums& sums, unsigned weights, unsigned input) {
  constexpr Geometry g = geometry();
  constexpr int kStepBytes = 2 * kBlockChannels * 16;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < g.k_steps(); ++k) {
    const int first = g.chunk_entry(2 * k), second = g.chunk_entry(2 * k + 1);
#pragma unroll
    for (int product = kTerms == 2 ? 0 : 2; product < 3; ++product) {
      const int a = product == 0, b = product == 1;  // the small terms first
      kw_multiply(sums, describe(weights + (a * g.k_steps() + k) * kStepBytes, kBlockChannels * 16),
                  describe(input + (b * g.planes() * g.plane_pitch() + first) * 16, (second - first) * 16));
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void await_products(Sums& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  // The sums are the instructions' until here.
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

}  // namespace knobwise::implicit_gemm_sm90

/// Packs weights (rounded and split) and bias, zeros where a tile reaches past the last channel or tap.
extern "C" __global__ void implicit_gemm_sm90_pack(const knobwise::Element* weights,
#if KW_BIAS
                                                   const knobwise::Element* bias,
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
                                                   const knobwise::Element* scale, const knobwise::Element* shift,
#endif
                                                   float* packed) {
  using namespace knobwise;
  using namespace knobwise::implicit_gemm_sm90;
  constexpr Geometry g = geometry();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  constexpr int kUnitRows = g.k_steps() * 2 * kBlockChannels, kPerWord = kChunk / 4;
  for (long long index = first; index < g.packed_weight_bytes() / (16 * kTerms); index += step) {
    const int in_block = static_cast<int>(index % kBlockChannels);
    const int chunk = static_cast<int>(index / kBlockChannels % (2 * g.k_steps()));
    const long long stage = index / kUnitRows;
    const int unit = static_cast<int>(stage % g.units()), block = static_cast<int>(stage / g.units());
    const int channel = block % g.channel_blocks() * kBlockChannels + in_block;
    const long long row = static_cast<long long>(block / g.channel_blocks()) * kGroupOutputs + channel;
    float values[kChunk];
    for (int e = 0; e < kChunk; ++e) {
      const int in_step = g.chunk_plane(chunk) * kChunk + e;
      const int c = g.unit_step(unit) * KNOB_input_channels_per_step + in_step;
      const bool valid = chunk < g.chunks() && in_step < KNOB_input_channels_per_step && c < kGroupInputs &&
                         channel < kGroupOutputs;
      values[e] = valid ? to_float(weights[(((row * kGroupInputs + c) * KW_T + g.unit_t(unit)) * KW_R +
                                            g.unit_r(unit)) * KW_S + g.chunk_tap(chunk)])
                        : 0.0f;
    }
    unsigned words[2][4];
    for (int i = 0; i < 4; ++i) {
      const float a = values[i * kPerWord], b = kPerWord == 2 ? values[i * kPerWord + kPerWord - 1] : 0.0f;
      words[0][i] = round_word(a, b);
      words[1][i] = round_word(a - word_value<0>(words[0][i]), b - word_value<1>(words[0][i]));
    }
    uint4* target = reinterpret_cast<uint4*>(packed) + stage * kTerms * kUnitRows + index % kUnitRows;
    for (int term = 0; term < kTerms; ++term)
      target[term * kUnitRows] = make_uint4(words[term][0], words[term][1], words[term][2], words[term][3]);
  }
  for (long long index = first; index < g.padded_channels(); index += step) {
    const int block = static_cast<int>(index) / kBlockChannels;
    const int channel = block % g.channel_blocks() * kBlockChannels + static_cast<int>(index) % kBlockChannels;
    const int source = block / g.channel_blocks() * kGroupOutputs + channel;
    const bool valid = channel < kGroupOutputs;
#if KW_BIAS
    packed[kPackedBias + index] = valid ? to_float(bias[source]) : 0.0f;
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
    packed[kPackedScale + index] = valid ? to_float(scale[source]) : 0.0f;
    packed[kPackedShift + index] = valid ? to_float(shift[source]) : 0.0f;
#endif
    (void)source, (void)valid;
  }
}

extern "C" __global__ void
#if KW_CLUSTER > 1
__cluster_dims__(KW_CLUSTER, 1, 1)
#endif
    __launch_bounds__(knobwise::implicit_gemm_sm90::kThreads, KNOB_min_blocks)
    implicit_gemm_sm90(
#if KW_COPIED
        const __grid_constant__ knobwise::implicit_gemm_sm90::TensorMap input,
#else
        const knobwise::Element* __restrict__ input,
#endif
        const float* __restrict__ packed,
                       knobwise::Element* __restrict__ output, const knobwise::Element* __restrict__ residual) {
  using namespace knobwise;
  using namespace knobwise::implicit_gemm_sm90;
  constexpr Geometry g = geometry();
  extern __shared__ __align__(128) unsigned char shared[];

  const int thread = static_cast<int>(threadIdx.x);
  const unsigned full = shared_address(shared), empty = full + 8 * kStages;
  const auto stage_buffer = [&](int stage) { return shared + g.stages_begin() + stage * g.stage_bytes(); };
  const BlockOrigin block = g.origin(blockIdx.x);
  const int tiles = g.block_tiles(block.first_tile), all_units = tiles * g.units();
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(full + 8 * stage, KW_COPIED ? 1 : 128 + 1);
      barrier_init(empty + 8 * stage, kConsumers / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (thread >= kConsumers) {
#if KW_PRODUCER_REGISTERS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(KW_PRODUCER_REGISTERS));
#endif
    const int producer = thread - kConsumers;
    const unsigned char* weights =
        reinterpret_cast<const unsigned char*>(packed) +
        static_cast<long long>(block.group * g.channel_blocks() + block.channel_block) * g.units() * g.weight_bytes();
#if KW_COPIED
    if (producer != 0) return;
#else
    const Element* group_input = input + static_cast<long long>(block.sample) * KW_C * kInPlane +
                                 static_cast<long long>(block.group * kGroupInputs) * (KW_NHWC ? 1 : kInPlane);
#endif
    int stage = 0;
    unsigned parity = 1;
#pragma unroll 1
    for (int index = 0; index < all_units; ++index) {
      const int unit = index % g.units();
      const Triple tile = g.tile_at(block.first_tile + index / g.units());
      const unsigned buffer = shared_address(stage_buffer(stage)), ready = full + 8 * stage;
      barrier_wait(empty + 8 * stage, parity);
      if (producer == 0) {
        barrier_expect(ready, g.weight_bytes() + KW_COPIED * g.copied_bytes());
        copy_weights(buffer, weights + static_cast<long long>(unit) * g.weight_bytes(), ready);
      }
#if KW_COPIED
      copy_input(buffer + g.weight_bytes(), input, block, tile, unit, ready);
#else
      stage_input(stage_buffer(stage) + g.weight_bytes(), group_input, tile, unit, producer);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      barrier_arrive(ready);
#endif
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  } else {
#if KW_CONSUMER_REGISTERS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(KW_CONSUMER_REGISTERS));
#endif
    const int lane = thread % 32, warp = thread / 32, warpgroup = thread / 128;
    const int channel_group = warpgroup % g.channel_groups(), column_group = warpgroup / g.channel_groups();
    const int in_block = channel_group * 64 + warp % 4 * 16;
    Element* scratch = reinterpret_cast<Element*>(shared + g.output_begin() + warp * g.out_bytes());
    const float* bias = packed + kPackedBias + (block.group * g.channel_blocks() + block.channel_block) * kBlockChannels +
                        in_block + lane / 4;
    int stage = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      Sums sums;
      const float low = KW_BIAS ? __ldg(bias) : 0.0f, high = KW_BIAS ? __ldg(bias + 8) : 0.0f;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
        sums[4 * j] = sums[4 * j + 1] = low, sums[4 * j + 2] = sums[4 * j + 3] = high;
      int previous = -1;
#pragma unroll 1
      for (int unit = 0; unit < g.units(); ++unit) {
        barrier_wait(full + 8 * stage, parity);
        const unsigned buffer = shared_address(stage_buffer(stage));
        multiply_unit(sums, buffer + channel_group * 64 * 16,
                      buffer + g.weight_bytes() + column_group * kColumns * 16);
        if (previous >= 0) {
          await_products<1>(sums);
          if (lane == 0) barrier_arrive(empty + 8 * previous);
        }
        previous = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      await_products<0>(sums);
      if (lane == 0) barrier_arrive(empty + 8 * previous);
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[i] = kw_before(sums[i], 0);
      const Place place{block, g.tile_at(block.first_tile + tile), in_block, column_group, lane};
#if KW_EPILOGUE_NORM
      normalise(sums, packed, place, reinterpret_cast<float*>(shared + g.norm_begin()));
#endif
      store_sums(sums, output, residual, place, scratch);
#if KW_EPILOGUE_NORM
      // The others have read this block's figures before it ends.
      cluster_barrier<KW_CLUSTER>();
#endif
    }
  }
}
