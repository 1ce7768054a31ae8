// Barriers in shared memory (mbarrier, sm_80 and up), named by their address: what pipelines of the kernels share.

namespace knobwise {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
/// A phase ends with `arrivals` arrivals. Of one thread, before a barrier of the block.
__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Waits for the end of the phase with that parity.
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
#define KW_TRY_WAIT "mbarrier.try_wait"
#else
#define KW_TRY_WAIT "mbarrier.test_wait"
#endif
  asm volatile("{\n.reg .pred done;\nagain:\n" KW_TRY_WAIT
               ".parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

}  // namespace knobwise
