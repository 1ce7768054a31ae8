#include "kernels/user/launch_shape.h"

#include <fmt/format.h>

#include <cmath>

#include "search_spaces/t1_json.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using nlohmann::json;

constexpr const char* kDimensions[] = {"X", "Y", "Z"};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

std::array<std::optional<Expression>, 3> size_member(const json& specification, const char* key,
                                                     const std::string& place) {
  std::array<std::optional<Expression>, 3> result;
  const json* size = t1_member(specification, key);
  if (size == nullptr) return result;
  for (std::size_t i = 0; i < 3; ++i) {
    if (const json* value = t1_member(*size, kDimensions[i]))
      result[i] = t1_scalar(*value, false, fmt::format("{}: {}.{}", place, key, kDimensions[i]));
  }
  if (!result[0]) t1_error(place, fmt::format("{} has no X", key));
  return result;
}

}  // namespace

std::int64_t whole_number(const Expression& expression, const Names& names, const ListNames& lists,
                          const std::string& what) {
  try {
    const Value value = expression.evaluate(names, lists);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    const auto* real = std::get_if<double>(&value);
    if (real && *real == std::floor(*real) && std::abs(*real) < 9e18) return static_cast<std::int64_t>(*real);
    throw UserError("the result is no whole number", expression.text(), 0, expression.text().size());
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", what, error.what()), error.text(), error.offset(), error.length());
  }
}

LaunchShape LaunchShape::parse(const json& specification, const std::string& place) {
  LaunchShape shape;
  shape.place_ = place;
  shape.local_ = size_member(specification, "LocalSize", place);
  shape.global_ = size_member(specification, "GlobalSize", place);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string key = fmt::format("GridDiv{}", kDimensions[i]);
    const json* divisors = t1_member(specification, key);
    if (divisors == nullptr) continue;
    if (!divisors->is_array()) t1_error(place, key + " is not a list");
    for (const json& divisor : *divisors) {
      shape.divisors_[i].push_back(t1_scalar(divisor, false, fmt::format("{}: {}", place, key)));
      shape.has_divisors_ = true;
    }
  }
  const std::string type = plain_word(t1_text(specification, "GlobalSizeType"));
  if (!type.empty() && type != "cuda" && type != "opencl" && type != "vulkan")
    t1_error(place, fmt::format("unknown GlobalSizeType `{}`; use CUDA, OpenCL or Vulkan", type));
  shape.global_in_threads_ = type == "opencl" || type == "vulkan";
  if (const json* shared = t1_member(specification, "SharedMemory"))
    shape.shared_ = t1_scalar(*shared, false, place + ": SharedMemory");
  return shape;
}

LaunchShape::Extents LaunchShape::evaluate(const Names& names, const ProblemSize& size,
                                           Backend backend) const {
  const auto number = [&](const Expression& expression, const std::string& what) {
    return whole_number(expression, names, {{"ProblemSize", {size.begin(), size.end()}}}, what);
  };
  const auto divisor = [&](std::int64_t value, const std::string& what) {
    if (value < 1) throw UserError(fmt::format("{}: {} divides the problem and is below 1", what, value));
    return value;
  };
  Extents extents;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto place = [&](const char* key) { return fmt::format("{}: {}{}", place_, key, kDimensions[i]); };
    if (local_[i]) extents.block[i] = number(*local_[i], place("LocalSize."));
    const std::int64_t points = i < size.size() ? size[i] : 1;
    if (!size.empty() && has_divisors_) {
      std::int64_t product = 1;
      for (const Expression& expression : divisors_[i])
        product *= divisor(number(expression, place("GridDiv")), place("GridDiv"));
      extents.grid[i] = ceil_div(points, product);
    } else if (global_[0]) {
      if (global_[i]) extents.grid[i] = number(*global_[i], place("GlobalSize."));
      if (global_in_threads_)
        extents.grid[i] = ceil_div(extents.grid[i], divisor(extents.block[i], place("LocalSize.")));
    } else {
      const bool has_threads = backend == Backend::cuda;
      extents.grid[i] =
          has_threads ? ceil_div(points, divisor(extents.block[i], place("LocalSize."))) : points;
    }
  }
  if (shared_) extents.shared_bytes = number(*shared_, place_ + ": SharedMemory");
  return extents;
}

}  // namespace knobwise
