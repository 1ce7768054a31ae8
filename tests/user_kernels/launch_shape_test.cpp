#include "kernels/user/launch_shape.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Names kNames = {{"bx", std::int64_t{32}}, {"by", std::int64_t{4}}, {"tile", std::int64_t{3}}};

LaunchShape::Extents shape(const char* specification, const ProblemSize& size,
                           Backend backend = Backend::cuda) {
  return LaunchShape::parse(nlohmann::json::parse(specification), "my.T1.json")
      .evaluate(kNames, size, backend);
}

constexpr const char* kLocal = R"("LocalSize": {"X": "bx", "Y": "by"})";

TEST(LaunchShape, DividesTheProblemByGridDivisors) {
  const auto extents =
      shape(R"({"LocalSize": {"X": "bx", "Y": "by"}, "GridDivX": ["bx", "tile"], "GridDivY": ["by"]})",
            {1000, 10, 5});
  EXPECT_THAT(extents.grid, ElementsAre(11, 3, 5));  // 1000 / 96, 10 / 4, 5 / 1, rounded up
  EXPECT_THAT(extents.block, ElementsAre(32, 4, 1));
}

TEST(LaunchShape, PrefersGridDivisorsToTheGlobalSizeThatPublishedFilesAlsoCarry) {
  const auto extents = shape(
      R"({"LocalSize": {"X": "bx"}, "GlobalSize": {"X": "(262144 // bx) // tile"}, "GridDivX": ["bx"]})",
      {64});
  EXPECT_EQ(extents.grid[0], 2);
}

TEST(LaunchShape, TakesGlobalSizesInBlocksOrThreads) {
  const std::string global = R"("GlobalSize": {"X": "128 * 8", "Y": 8, "Z": "1"})";
  const auto with = [&](const char* type) {
    return shape(fmt::format("{{{}, {}{}}}", kLocal, global, type).c_str(), {});
  };
  EXPECT_THAT(with("").grid, ElementsAre(1024, 8, 1));
  EXPECT_THAT(with(R"(, "GlobalSizeType": "CUDA")").grid, ElementsAre(1024, 8, 1));
  EXPECT_THAT(with(R"(, "GlobalSizeType": "OpenCL")").grid, ElementsAre(32, 2, 1));
}

TEST(LaunchShape, DividesTheProblemByTheBlockWithoutEither) {
  EXPECT_THAT(shape(R"({"LocalSize": {"X": "bx", "Y": "by"}})", {65, 4}).grid, ElementsAre(3, 1, 1));
  EXPECT_THAT(shape(R"({"LocalSize": {"X": "bx"}})", {65, 4}, Backend::cpu).grid, ElementsAre(65, 4, 1));
}

TEST(LaunchShape, EvaluatesSharedMemory) {
  EXPECT_EQ(shape(R"({"SharedMemory": 256})", {1}).shared_bytes, 256);
  EXPECT_EQ(shape(R"({"SharedMemory": "bx * by * 4"})", {1}).shared_bytes, 512);
}

TEST(LaunchShape, PointsIntoAnExpressionThatCannotBeEvaluated) {
  const auto message = [](const char* specification) -> std::string {
    try {
      shape(specification, {64});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(R"({"LocalSize": {"X": "bx", "Y": "unknown"}})"),
              HasSubstr("my.T1.json: LocalSize.Y: expression `unknown`, column 1: unknown name"));
  EXPECT_THAT(message(R"({"LocalSize": {"X": "bx / 3"}})"),
              HasSubstr("LocalSize.X: the result is no whole number"));
  EXPECT_THAT(message(R"({"GridDivX": ["0"]})"), HasSubstr("GridDivX: 0 divides the problem"));
  EXPECT_THAT(message(R"({"LocalSize": {"Y": "1"}})"), HasSubstr("LocalSize has no X"));
  EXPECT_THAT(message(R"({"GlobalSizeType": "Metal"})"), HasSubstr("unknown GlobalSizeType"));
}

}  // namespace
}  // namespace knobwise
