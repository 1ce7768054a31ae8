#include "kernels/problem.h"

#include <fmt/format.h>

#include "kernels/epilogue_table.h"

namespace knobwise {
namespace {

// The words of the dimensions d, h, w and t, r, s; a lower rank uses the last ones.
constexpr std::array<const char*, 3> kInputNames = {"d", "h", "w"};
constexpr std::array<const char*, 3> kFilterNames = {"t", "r", "s"};

std::int64_t output_extent(const Problem& p, std::size_t i) {
  return (p.in[i] + 2 * p.pad[i] - (p.dilation[i] * (p.filter[i] - 1) + 1)) / p.stride[i] + 1;
}

void reduce(Extents& extents, Axis axis) {
  switch (axis) {
    case Axis::channel:
      extents.c = 1;
      break;
    case Axis::depth:
      extents.d = 1;
      break;
    case Axis::height:
      extents.h = 1;
      break;
    case Axis::width:
      extents.w = 1;
      break;
  }
}

bool is_reduction(EpilogueOp op) {
  return step_row(op).form == StepForm::axis;
}

// "3" if all used dimensions agree, else "2x3".
std::string per_dimension(const Problem& p, const std::array<std::int64_t, 3>& values) {
  const std::size_t first = static_cast<std::size_t>(3 - p.rank);
  std::string text = std::to_string(values[first]);
  bool equal = true;
  for (std::size_t i = first + 1; i < 3; ++i) {
    equal = equal && values[i] == values[first];
    text += "x" + std::to_string(values[i]);
  }
  return equal ? std::to_string(values[first]) : text;
}

// The shortest decimal that reads back the same, with no padding of the exponent: 1e-5.
std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  std::size_t digit = exponent + 1;
  if (text[digit] == '+') text.erase(digit, 1);
  if (text[digit] == '-') ++digit;
  while (text[digit] == '0') text.erase(digit, 1);
  return text;
}

std::string user_text(const Problem& p) {
  std::string text = "user:" + p.user;
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.rank); ++i)
    text += fmt::format("{}{}", i == 0 ? " size=" : "x", p.in[2 - i]);
  return text;
}

std::int64_t points(const Problem& p) {
  return p.in[0] * p.in[1] * p.in[2];
}

std::string step_text(const EpilogueStep& step) {
  std::string text(to_string(step.op));
  switch (step_row(step.op).form) {
    case StepForm::numbers:
      for (double number : step.numbers) text += " " + number_text(number);
      break;
    case StepForm::axis:
    case StepForm::channel:
      text += fmt::format(" {}", to_string(step.axis));
      break;
    case StepForm::norm:
      if (step.op == EpilogueOp::group_norm) text += fmt::format(" groups={}", step.groups);
      if (!step.numbers.empty()) text += " eps=" + number_text(step.numbers[0]);
      if (step.affine) text += " affine";
      break;
  }
  return text;
}

}  // namespace

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "";
}

std::string_view to_string(Layout layout) {
  return layout == Layout::nchw ? "nchw" : "nhwc";
}

std::size_t size_of(DType dtype) {
  return dtype == DType::f32 ? 4 : 2;
}

std::int64_t ParameterSpec::elements() const {
  std::int64_t product = 1;
  for (std::int64_t extent : extents) product *= extent;
  return product;
}

std::string Problem::to_string() const {
  if (!user.empty()) return user_text(*this);
  const std::size_t first = static_cast<std::size_t>(3 - rank);
  std::string text = fmt::format("conv{}d n={} c={}", rank, n, c);
  for (std::size_t i = first; i < 3; ++i) text += fmt::format(" {}={}", kInputNames[i], in[i]);
  text += fmt::format(" k={}", k);
  for (std::size_t i = first; i < 3; ++i) text += fmt::format(" {}={}", kFilterNames[i], filter[i]);
  if (const std::string s = per_dimension(*this, stride); s != "1") text += " stride=" + s;
  if (const std::string s = per_dimension(*this, pad); s != "0") text += " pad=" + s;
  if (const std::string s = per_dimension(*this, dilation); s != "1") text += " dilation=" + s;
  if (groups != 1) text += fmt::format(" groups={}", groups);
  if (dtype != DType::f32) text += fmt::format(" dtype={}", knobwise::to_string(dtype));
  if (layout != Layout::nchw) text += fmt::format(" layout={}", knobwise::to_string(layout));
  if (bias) text += " bias";
  for (const EpilogueStep& step : epilogue) text += " | " + step_text(step);
  return text;
}

Extents Problem::input_extents() const {
  return {n, c, in[0], in[1], in[2]};
}

Extents Problem::conv_extents() const {
  return {n, k, output_extent(*this, 0), output_extent(*this, 1), output_extent(*this, 2)};
}

Extents Problem::extents_before(std::size_t index) const {
  Extents extents = conv_extents();
  for (std::size_t i = 0; i < index; ++i) {
    if (is_reduction(epilogue[i].op)) reduce(extents, epilogue[i].axis);
  }
  return extents;
}

Extents Problem::output_extents() const {
  return extents_before(epilogue.size());
}

std::vector<ParameterSpec> Problem::parameters() const {
  std::vector<ParameterSpec> specs;
  specs.push_back({"weights", {k, c / groups, filter[0], filter[1], filter[2]}});
  if (bias) specs.push_back({"bias", {k}});
  for (std::size_t i = 0; i < epilogue.size(); ++i) {
    const Extents before = extents_before(i);
    if (epilogue[i].op == EpilogueOp::residual) {
      specs.push_back({fmt::format("residual{}", i), {before.n, before.c, before.d, before.h, before.w}});
    }
    if (epilogue[i].affine) {
      specs.push_back({fmt::format("scale{}", i), {before.c}});
      specs.push_back({fmt::format("shift{}", i), {before.c}});
    }
  }
  return specs;
}

std::int64_t Problem::fan_in() const {
  return c / groups * filter[0] * filter[1] * filter[2];
}

std::int64_t Problem::flops() const {
  if (!user.empty()) return points(*this);
  return 2 * conv_extents().elements() * fan_in();
}

std::int64_t Problem::compulsory_bytes() const {
  if (!user.empty()) return points(*this);
  std::int64_t elements = input_extents().elements() + output_extents().elements();
  for (const ParameterSpec& parameter : parameters()) elements += parameter.elements();
  return elements * static_cast<std::int64_t>(size_of(dtype));
}

std::vector<std::pair<std::string, Value>> problem_constants(const Problem& p) {
  const auto integer = [](std::int64_t value) { return Value(value); };
  if (!p.user.empty())
    return {{"problem_size_x", integer(p.in[2])},
            {"problem_size_y", integer(p.in[1])},
            {"problem_size_z", integer(p.in[0])}};
  const Extents conv = p.conv_extents();
  return {{"n", integer(p.n)},
          {"c", integer(p.c)},
          {"k", integer(p.k)},
          {"d", integer(p.in[0])},
          {"h", integer(p.in[1])},
          {"w", integer(p.in[2])},
          {"t", integer(p.filter[0])},
          {"r", integer(p.filter[1])},
          {"s", integer(p.filter[2])},
          {"stride_d", integer(p.stride[0])},
          {"stride_h", integer(p.stride[1])},
          {"stride_w", integer(p.stride[2])},
          {"pad_d", integer(p.pad[0])},
          {"pad_h", integer(p.pad[1])},
          {"pad_w", integer(p.pad[2])},
          {"dilation_d", integer(p.dilation[0])},
          {"dilation_h", integer(p.dilation[1])},
          {"dilation_w", integer(p.dilation[2])},
          {"groups", integer(p.groups)},
          {"bias", integer(p.bias ? 1 : 0)},
          {"od", integer(conv.d)},
          {"oh", integer(conv.h)},
          {"ow", integer(conv.w)},
          {"rank", integer(p.rank)},
          {"dtype_bytes", integer(static_cast<std::int64_t>(size_of(p.dtype)))},
          {"fan_in", integer(p.fan_in())},
          {"c_per_group", integer(p.c / p.groups)},
          {"k_per_group", integer(p.k / p.groups)}};
}

}  // namespace knobwise
