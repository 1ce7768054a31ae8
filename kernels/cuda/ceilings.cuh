// Kernels that use one resource of a multiprocessor and nothing else, for its highest rate. The host defines
// KW_ITERATIONS, and KW_MMA_TYPE (tf32, f16 or bf16) where the tensor cores are meant.

// A round: every thread copies four vectors, a grid's width apart.
extern "C" __global__ void __launch_bounds__(512) kw_copy(const float4* from, float4* to) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int i = 0; i < KW_ITERATIONS; ++i, at += 4 * stride) {
    const float4 a = from[at], b = from[at + stride], c = from[at + 2 * stride], d = from[at + 3 * stride];
    to[at] = a;
    to[at + stride] = b;
    to[at + 2 * stride] = c;
    to[at + 3 * stride] = d;
  }
}

extern "C" __global__ void __launch_bounds__(256) kw_multiply_add(const float* from, float* to) {
  constexpr int kChains = 16;
  const float factor = from[threadIdx.x], addend = from[threadIdx.x + 256];
  float chains[kChains];
#pragma unroll
  for (int j = 0; j < kChains; ++j) chains[j] = factor * j;
#pragma unroll 4
  for (int i = 0; i < KW_ITERATIONS; ++i) {
#pragma unroll
    for (int j = 0; j < kChains; ++j) chains[j] = chains[j] * factor + addend;
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kChains; ++j) sum += chains[j];
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

#ifdef KW_MMA_TYPE
#define KW_TEXT_OF(x) #x
#define KW_TEXT(x) KW_TEXT_OF(x)
#define KW_MMA_SHAPE_tf32 "m16n8k8"
#define KW_MMA_SHAPE_f16 "m16n8k16"
#define KW_MMA_SHAPE_bf16 "m16n8k16"
#define KW_JOIN_OF(a, b) a##b
#define KW_JOIN(a, b) KW_JOIN_OF(a, b)
#define KW_MMA                                                                                            \
  "mma.sync.aligned." KW_JOIN(KW_MMA_SHAPE_, KW_MMA_TYPE) ".row.col.f32." KW_TEXT(KW_MMA_TYPE) "." KW_TEXT( \
      KW_MMA_TYPE) ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"

// Every warp keeps eight independent products going, all operands in registers.
extern "C" __global__ void __launch_bounds__(256) kw_mma(const unsigned* from, float* to) {
  constexpr int kChains = 8;
  unsigned a[4], b[2];
#pragma unroll
  for (int j = 0; j < 4; ++j) a[j] = from[threadIdx.x + 256 * j];
#pragma unroll
  for (int j = 0; j < 2; ++j) b[j] = from[threadIdx.x + 256 * (4 + j)];
  float d[kChains][4] = {};
#pragma unroll 4
  for (int i = 0; i < KW_ITERATIONS; ++i) {
#pragma unroll
    for (int j = 0; j < kChains; ++j) {
      asm volatile(KW_MMA
                   : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kChains; ++j) sum += d[j][0] + d[j][1] + d[j][2] + d[j][3];
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
#endif

#ifdef KW_WGMMA
// Hopper's warpgroup products, 64 x 256 each, both operands in shared memory with the 128-byte swizzle: rows of
// 128 bytes, so one row holds four steps along the reduction. KW_WGMMA and KW_WGMMA_OPERANDS come from the host:
// 128 accumulators do not fit a readable text.
__device__ inline unsigned long long kw_descriptor(const void* shared) {
  constexpr unsigned long long kSwizzle128 = 1ull << 62, kEightRows = 1024ull >> 4;
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  return kSwizzle128 | kEightRows << 32 | 1ull << 16 | (address & 0x3FFFF) >> 4;
}

extern "C" __global__ void __launch_bounds__(256) kw_wgmma(const uint4* from, float* to) {
  __shared__ alignas(1024) uint4 a[64 * 8], b[256 * 8];
  for (int i = threadIdx.x; i < 64 * 8; i += 256) a[i] = from[i];
  for (int i = threadIdx.x; i < 256 * 8; i += 256) b[i] = from[64 * 8 + i];
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  const unsigned long long da = kw_descriptor(a), db = kw_descriptor(b);
  float d[128] = {};
#pragma unroll 1
  for (int i = 0; i < KW_ITERATIONS; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      asm volatile(KW_WGMMA : KW_WGMMA_OPERANDS : "l"(da + 2 * step), "l"(db + 2 * step));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 128; ++j) sum += d[j];
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
#endif
