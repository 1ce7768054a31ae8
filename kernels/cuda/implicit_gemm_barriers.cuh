// implicit_gemm: barriers of a part of the block.

namespace knobwise::implicit_gemm {

/// Of the threads that multiply.
__device__ __forceinline__ void consumer_barrier() {
  if constexpr (kThreads == kConsumers)
    __syncthreads();
  else
    asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

/// Of the warps that write results together.
__device__ __forceinline__ void store_barrier() {
  constexpr int kWarps = geometry().store_warps();
  if constexpr (kWarps == 1)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(2 + threadIdx.x / (32 * kWarps)), "n"(32 * kWarps) : "memory");
}

/// Hands the buffers from producers to consumers and back. A buffer has two mbarriers, full and empty: every thread
/// of the one side arrives after its accesses, every thread of the other waits before its own (racecheck follows no
/// lane that does either for its warp). Phase n of both belongs to the n-th step that uses the buffer.
struct Handover {
  unsigned barriers;  ///< Address in shared memory: full, then empty of every buffer.

  __device__ __forceinline__ explicit Handover(unsigned char* shared)
      : barriers(shared_address(shared + geometry().barriers_begin())) {}

  /// Of one thread, before a barrier of the block.
  __device__ __forceinline__ void init() const {
#pragma unroll
    for (int buffer = 0; buffer < kBuffers; ++buffer) barrier_init(full(buffer), kStagers), barrier_init(empty(buffer), kConsumers);
  }
  __device__ __forceinline__ void filled(int step) const { barrier_arrive(full(step)); }
  __device__ __forceinline__ void await_filled(int step) const { barrier_wait(full(step), step / kBuffers & 1); }
  __device__ __forceinline__ void emptied(int step) const { barrier_arrive(empty(step)); }
  /// Waits until the consumers are done with the step that used the buffer of `step` before, if there is one.
  __device__ __forceinline__ void await_emptied(int step) const {
    if (step >= kBuffers) barrier_wait(empty(step), (step / kBuffers - 1) & 1);
  }

 private:
  __device__ __forceinline__ unsigned full(int step) const { return barriers + 16 * (step % kBuffers); }
  __device__ __forceinline__ unsigned empty(int step) const { return full(step) + 8; }
};

}  // namespace knobwise::implicit_gemm
