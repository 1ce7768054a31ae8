// implicit_gemm: barriers of a part of the block.

namespace knobwise::implicit_gemm {

/// Barrier 0 is __syncthreads(); 1 the consumers'; then two for each buffer: full and empty.
constexpr int kConsumerBarrier = 1, kFullBarrier = 2, kEmptyBarrier = kFullBarrier + kBuffers;

__device__ __forceinline__ void barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void consumer_barrier() {
  if constexpr (kThreads == kConsumers)
    __syncthreads();
  else
    barrier_sync(kConsumerBarrier, kConsumers);
}

}  // namespace knobwise::implicit_gemm
