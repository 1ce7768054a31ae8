// T1 files of user kernels for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace knobwise::test {

/// A folder of its own for each test, removed at the end.
class KernelFolder {
 public:
  KernelFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "knobwise-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~KernelFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

  /// Writes a file; its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  std::filesystem::path write(const std::string& name, const nlohmann::json& content) const {
    return write(name, content.dump(2));
  }

 private:
  std::filesystem::path path_;
};

/// y[i] = 2 * x[i] in C++, in pieces of `piece` elements, with the knob `variant` for faults.
inline nlohmann::json double_kernel() {
  return nlohmann::json::parse(R"({
    "General": {"BenchmarkName": "double it"},
    "ConfigurationSpace": {"TuningParameters": [
      {"Name": "piece", "Type": "int", "Values": "[64, 128, 256]", "Default": 128},
      {"Name": "variant", "Type": "int", "Values": "[0]", "Default": 0}]},
    "KernelSpecification": {
      "Language": "C++", "KernelName": "double_all", "KernelFile": "double.cpp",
      "ProblemSize": [1000], "GridDivX": ["piece"],
      "Arguments": [
        {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly",
         "Size": "ProblemSize[0]", "Output": 1},
        {"Name": "x", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly",
         "Size": "ProblemSize[0]", "FillType": "Random", "FillValue": 1.0},
        {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": "ProblemSize[0]"}]}})");
}

/// The source of double_kernel(). variant 1 is wrong, 2 leaves an element unwritten, 3 writes behind the
/// output, 4 crashes, 5 writes into its input, 6 does not compile, 7 never ends.
constexpr const char* kDoubleSource = R"(
#if variant == 6
#error no such variant
#endif
void double_all(float* y, const float* x, int n) {
  const int begin = blockIdx.x * piece, end = begin + piece < n ? begin + piece : n;
  for (int i = begin; i < end; ++i) y[i] = 2 * x[i] + (variant == 1 && i == 5);
  if (variant == 2 && begin == 0) y[7] = 0.0f / 0.0f;
  if (variant == 3 && end == n) y[n] = 1;
  if (variant == 4) *(volatile int*)16 = 1;
  if (variant == 5) for (int i = begin; i < end; ++i) const_cast<float*>(x)[i] = 0;
  while (variant == 7) asm volatile("");
}
)";

}  // namespace knobwise::test
