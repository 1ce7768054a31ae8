#include "kernels/epilogue_table.h"

#include "search_spaces/never_destroyed.h"

namespace knobwise {

const std::vector<StepRow>& step_rows() {
  using enum EpilogueOp;
  static const auto& rows = never_destroyed(std::vector<StepRow>{
      {add, "add", StepForm::numbers, 1},
      {sub, "sub", StepForm::numbers, 1},
      {mul, "mul", StepForm::numbers, 1},
      {div, "div", StepForm::numbers, 1},
      {relu, "relu", StepForm::numbers, 0},
      {leaky_relu, "leaky_relu", StepForm::numbers, 1},
      {clamp, "clamp", StepForm::numbers, 2},
      {sigmoid, "sigmoid", StepForm::numbers, 0},
      {tanh, "tanh", StepForm::numbers, 0},
      {gelu, "gelu", StepForm::numbers, 0},
      {silu, "silu", StepForm::numbers, 0},
      {mish, "mish", StepForm::numbers, 0},
      {hardswish, "hardswish", StepForm::numbers, 0},
      {residual, "residual", StepForm::numbers, 0},
      {min, "min", StepForm::axis, 0},
      {max, "max", StepForm::axis, 0},
      {mean, "mean", StepForm::axis, 0},
      {sum, "sum", StepForm::axis, 0},
      {softmax, "softmax", StepForm::channel, 0},
      {group_norm, "group_norm", StepForm::norm, 0},
      {instance_norm, "instance_norm", StepForm::norm, 0},
  });
  return rows;
}

const StepRow& step_row(EpilogueOp op) {
  return step_rows()[static_cast<std::size_t>(op)];
}

std::string_view to_string(EpilogueOp op) {
  return step_row(op).name;
}

std::string_view to_string(Axis axis) {
  switch (axis) {
    case Axis::channel:
      return "channel";
    case Axis::depth:
      return "depth";
    case Axis::height:
      return "height";
    case Axis::width:
      return "width";
  }
  return "";
}

bool is_elementwise(EpilogueOp op) {
  return op <= EpilogueOp::residual;
}

}  // namespace knobwise
