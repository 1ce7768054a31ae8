// The #define lines that make a problem and a configuration compile-time constants.
#include <fmt/format.h>

#include "kernels/family.h"

namespace knobwise {
namespace {

void define(std::string& text, std::string_view name, std::int64_t value) {
  text += fmt::format("#define {} {}{}\n", name, value, value > 0x7fffffff ? "ll" : "");
}

void define_dimensions(std::string& text, std::string_view name, const std::array<std::int64_t, 3>& values) {
  for (std::size_t i = 0; i < 3; ++i) define(text, fmt::format("KW_{}_{}", name, "DHW"[i]), values[i]);
}

void define_knob(std::string& text, const std::string& knob, const Value& value) {
  if (const auto* word = std::get_if<std::string>(&value)) {
    text += fmt::format("#define KNOB_{}_{} 1\n", knob, *word);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    text += fmt::format("#define KNOB_{} {}\n", knob, *flag ? 1 : 0);
  } else {
    text += fmt::format("#define KNOB_{} {}\n", knob, to_string(value));
  }
}

}  // namespace

std::string source_prelude(const Problem& problem, const Configuration& configuration) {
  const Extents conv = problem.conv_extents();
  std::string text;
  define(text, "KW_RANK", problem.rank);
  define(text, "KW_N", problem.n);
  define(text, "KW_C", problem.c);
  define(text, "KW_K", problem.k);
  constexpr std::array<const char*, 3> kInput = {"KW_D", "KW_H", "KW_W"};
  constexpr std::array<const char*, 3> kFilter = {"KW_T", "KW_R", "KW_S"};
  for (std::size_t i = 0; i < 3; ++i) define(text, kInput[i], problem.in[i]);
  for (std::size_t i = 0; i < 3; ++i) define(text, kFilter[i], problem.filter[i]);
  define_dimensions(text, "STRIDE", problem.stride);
  define_dimensions(text, "PAD", problem.pad);
  define_dimensions(text, "DILATION", problem.dilation);
  define(text, "KW_GROUPS", problem.groups);
  define(text, "KW_BIAS", problem.bias ? 1 : 0);
  define(text, "KW_OD", conv.d);
  define(text, "KW_OH", conv.h);
  define(text, "KW_OW", conv.w);
  define(text, "KW_DTYPE_F32", problem.dtype == DType::f32);
  define(text, "KW_DTYPE_F16", problem.dtype == DType::f16);
  define(text, "KW_DTYPE_BF16", problem.dtype == DType::bf16);
  define(text, "KW_NHWC", problem.layout == Layout::nhwc);
  for (const auto& [knob, value] : configuration.knobs()) define_knob(text, knob, value);
  return text;
}

}  // namespace knobwise
