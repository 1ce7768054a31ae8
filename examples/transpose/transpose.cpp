// Transposes a matrix of KW_PROBLEM_SIZE_Y rows and KW_PROBLEM_SIZE_X columns, one tile for each call.
#include <algorithm>

void transpose(float* output, const float* input) {
  constexpr int rows = KW_PROBLEM_SIZE_Y, columns = KW_PROBLEM_SIZE_X;
  const int row_begin = int(blockIdx.y) * tile_y, row_end = std::min(row_begin + tile_y, rows);
  const int column_begin = int(blockIdx.x) * tile_x, column_end = std::min(column_begin + tile_x, columns);
#if write_rows
  for (int column = column_begin; column < column_end; ++column)
    for (int row = row_begin; row < row_end; ++row)
      output[column * long(rows) + row] = input[row * long(columns) + column];
#else
  for (int row = row_begin; row < row_end; ++row)
    for (int column = column_begin; column < column_end; ++column)
      output[column * long(rows) + row] = input[row * long(columns) + column];
#endif
}
