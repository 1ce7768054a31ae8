// Transposes a matrix of KW_PROBLEM_SIZE_Y rows and KW_PROBLEM_SIZE_X columns: a block moves a tile of tile x tile
// elements through shared memory, so that both sides are read and written in rows.
__global__ void __launch_bounds__(tile* block_y) transpose(float* output, const float* input) {
  constexpr int rows = KW_PROBLEM_SIZE_Y, columns = KW_PROBLEM_SIZE_X;
  __shared__ float moved[tile][tile + padding];
  const int row = blockIdx.y * tile, column = blockIdx.x * tile;
  for (int y = threadIdx.y; y < tile; y += block_y) {
    if (row + y < rows && column + threadIdx.x < columns)
      moved[y][threadIdx.x] = input[(row + y) * (long long)columns + column + threadIdx.x];
  }
  __syncthreads();
  for (int y = threadIdx.y; y < tile; y += block_y) {
    if (column + y < columns && row + threadIdx.x < rows)
      output[(column + y) * (long long)rows + row + threadIdx.x] = moved[threadIdx.x][y];
  }
}
