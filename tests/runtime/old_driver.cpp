// A CUDA driver of long ago, in a library named as the real one: it starts, and lacks newer calls.
#include <cuda.h>

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 6000;
  return CUDA_SUCCESS;
}
