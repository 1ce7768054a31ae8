// Kernels behind Device::fill_operand() and Device::verify(). Compiled after operand_values.h, error_sums.h
// and element.cuh; all loop over the grid, so that any number of elements fits any grid.

using namespace knobwise;

extern "C" __global__ void kw_fill(void* data, int dtype, long long elements, int kind,
                                   unsigned long long seed, double low, double high) {
  for (long long i = global_thread(); i < elements; i += global_threads()) {
    const unsigned long long bits = operand_bits(seed, static_cast<unsigned long long>(i));
    store_element(data, dtype, i, operand_from_bits(kind, low, high, bits));
  }
}

// Adds a hash of every (position, element) to *sum: the same for the same content, whatever the order of
// addition.
extern "C" __global__ void kw_digest(const void* data, int element_bytes, long long elements,
                                     unsigned long long* sum) {
  unsigned long long mine = 0;
  for (long long i = global_thread(); i < elements; i += global_threads()) {
    const unsigned value = element_bytes == 4 ? static_cast<const unsigned*>(data)[i]
                                              : static_cast<const unsigned short*>(data)[i];
    mine += operand_bits(value, static_cast<unsigned long long>(i));
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// One ErrorSums a block, added up in a fixed order: the same input gives the same bits.
extern "C" __global__ void __launch_bounds__(256)
    kw_compare(const void* out, int dtype, const double* ref, long long elements, ErrorSums* sums) {
  __shared__ ErrorSums shared[256];
  ErrorSums mine{};
  for (long long i = global_thread(); i < elements; i += global_threads()) {
    add_error(mine, load_element(out, dtype, i), ref[i]);
  }
  shared[threadIdx.x] = mine;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) merge_errors(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = shared[0];
}
