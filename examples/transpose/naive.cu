// The reference: one thread for each element.
__global__ void transpose_naive(float* output, const float* input) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column < KW_PROBLEM_SIZE_X)
    output[column * (long long)KW_PROBLEM_SIZE_Y + row] = input[row * (long long)KW_PROBLEM_SIZE_X + column];
}
