// Files with one problem a line.
#pragma once

#include <string>
#include <vector>

#include "kernels/problem.h"

namespace knobwise::cli {

struct ProblemLine {
  int number = 0;  ///< Of the line in its file, from 1.
  Problem problem;
};

/// Appends every problem of a file, in which # begins a comment, to `lines`. A bad line is said on standard
/// error, with its place. Returns the number of bad lines; throws UserError when the file cannot be read.
int read_problems(const std::string& path, std::vector<ProblemLine>& lines);

}  // namespace knobwise::cli
