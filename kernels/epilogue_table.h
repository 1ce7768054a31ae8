// The words of the epilogue: one row for each step, shared by parser and printer.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/problem.h"

namespace knobwise {

/// What may follow the name of a step.
enum class StepForm {
  numbers,  ///< `count` numbers
  axis,     ///< one of channel, depth, height, width
  channel,  ///< the word channel
  norm,     ///< groups= (group_norm only), eps=, affine
};

struct StepRow {
  EpilogueOp op;
  std::string_view name;
  StepForm form;
  int count;  ///< Numbers, where the form is numbers.
};

const std::vector<StepRow>& step_rows();
const StepRow& step_row(EpilogueOp op);

std::string_view to_string(Axis axis);

}  // namespace knobwise
