#include "kernels/cuda/warpgroup_instruction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace knobwise {

namespace {

/// One function, `name`; `shape` is what follows the columns in the instruction's name.
std::string instruction(std::string_view name, int columns, std::string_view shape, LeftOperand left) {
  const bool transposes = shape.starts_with("k16"), registers = left == LeftOperand::registers;
  const int sums = columns / 2, after_a = sums + (registers ? 4 : 1);
  std::vector<std::string> names, operands;
  for (int i = 0; i < sums; ++i) {
    names.push_back(fmt::format("%{}", i));
    operands.push_back(fmt::format("\"+f\"(sums[{}])", i));
  }
  const std::string a = registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", sums, sums + 1, sums + 2, sums + 3)
                                  : fmt::format("%{}", sums);
  return fmt::format(
      "__device__ __forceinline__ void {10}(float (&sums)[{0}], {1}, unsigned long long b) {{\n"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n\"\n"
      "               \"wgmma.mma_async.sync.aligned.m64n{2}{3} {{{4}}}, {5}, %{6}, p, 1, 1{7};\\n}}\"\n"
      "               : {8} : {9}, \"l\"(b));\n}}\n",
      sums, registers ? "const unsigned (&a)[4]" : "unsigned long long a", columns, shape,
      fmt::join(names, ", "), a, after_a,
      !transposes ? ""
      : registers ? ", 0"
                  : ", 0, 0",
      fmt::join(operands, ", "),
      registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)", name);
}

}  // namespace

std::string warpgroup_instruction(int columns, std::string_view precision, LeftOperand left) {
  const char* shape = precision.starts_with("tf32")   ? "k8.f32.tf32.tf32"
                      : precision.starts_with("fp16") ? "k16.f32.f16.f16"
                                                      : "k16.f32.bf16.bf16";
  std::string text = instruction("kw_multiply", columns, shape, left);
  if (precision == "fp16_e5m2") text += instruction("kw_multiply_errors", columns, "k32.f32.e5m2.e5m2", left);
  return text;
}

}  // namespace knobwise
