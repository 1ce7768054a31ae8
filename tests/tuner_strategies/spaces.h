// Small spaces for the tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "search_spaces/space.h"

namespace knobwise::test {

/// Knobs k0, k1, ... whose values are expressions, and one constraint.
inline BoundSpace make_space(const std::vector<std::string>& values, const std::string& constraint = "True") {
  std::vector<KnobDeclaration> knobs;
  for (const std::string& list : values) {
    knobs.push_back({fmt::format("k{}", knobs.size()),
                     KnobDeclaration::Type::any,
                     {Expression::parse(list)},
                     std::nullopt});
  }
  return SearchSpace("test", std::move(knobs), {{Expression::parse(constraint), ""}}).bind();
}

}  // namespace knobwise::test
