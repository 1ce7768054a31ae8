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

#if __CUDA_ARCH__ >= 900
#define KW_TRY_WAIT "mbarrier.try_wait"
#else
#define KW_TRY_WAIT "mbarrier.test_wait"
#endif

/// Hands the buffers from producers to consumers and back. A buffer has two mbarriers, full and empty: every thread
/// of the one side arrives after its accesses, every thread of the other waits before its own (racecheck follows no
/// lane that does either for its warp). Phase n of both belongs to the n-th step that uses the buffer.
struct Handover {
  unsigned barriers;  ///< Address in shared memory: full, then empty of every buffer.

  __device__ __forceinline__ explicit Handover(unsigned char* shared)
      : barriers(static_cast<unsigned>(__cvta_generic_to_shared(shared + geometry().barriers_begin()))) {}

  /// Of one thread, before a barrier of the block.
  __device__ __forceinline__ void init() const {
#pragma unroll
    for (int buffer = 0; buffer < kBuffers; ++buffer) init(full(buffer), kStagers), init(empty(buffer), kConsumers);
  }
  __device__ __forceinline__ void filled(int step) const { arrive(full(step)); }
  __device__ __forceinline__ void await_filled(int step) const { wait(full(step), step / kBuffers); }
  __device__ __forceinline__ void emptied(int step) const { arrive(empty(step)); }
  /// Waits until the consumers are done with the step that used the buffer of `step` before, if there is one.
  __device__ __forceinline__ void await_emptied(int step) const {
    if (step >= kBuffers) wait(empty(step), step / kBuffers - 1);
  }

 private:
  __device__ __forceinline__ unsigned full(int step) const { return barriers + 16 * (step % kBuffers); }
  __device__ __forceinline__ unsigned empty(int step) const { return full(step) + 8; }

  static __device__ __forceinline__ void init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
  }
  static __device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  }
  static __device__ __forceinline__ void wait(unsigned barrier, int phase) {
    asm volatile("{\n.reg .pred done;\nagain:\n" KW_TRY_WAIT
                 ".parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
                 "r"(phase & 1)
                 : "memory");
  }
};

}  // namespace knobwise::implicit_gemm
