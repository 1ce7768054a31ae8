#include "kernels/user/element_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

struct Row {
  const char* name;
  std::size_t bytes, components;
};

class Types : public testing::TestWithParam<Row> {};

TEST_P(Types, HaveTheirSizeAndKeepSmallNumbers) {
  const auto [name, bytes, components] = GetParam();
  const ElementType type = ElementType::parse(name, 0, "test");
  EXPECT_EQ(type.bytes(), bytes);
  EXPECT_EQ(type.components, components);
  std::vector<char> memory(4 * bytes);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(4 * components); ++i) {
    type.store(memory.data(), i, static_cast<double>(i % 2));
    EXPECT_EQ(type.load(memory.data(), i), static_cast<double>(i % 2));
  }
}

INSTANTIATE_TEST_SUITE_P(T1, Types,
                         testing::Values(Row{"bool", 1, 1}, Row{"int8", 1, 1}, Row{"uint8", 1, 1},
                                         Row{"int16", 2, 1}, Row{"uint16", 2, 1}, Row{"int32", 4, 1},
                                         Row{"uint32", 4, 1}, Row{"int64", 8, 1}, Row{"uint64", 8, 1},
                                         Row{"int", 4, 1}, Row{"half", 2, 1}, Row{"half16", 32, 16},
                                         Row{"float", 4, 1}, Row{"float2", 8, 2}, Row{"float3", 12, 3},
                                         Row{"float16", 64, 16}, Row{"double", 8, 1}, Row{"double4", 32, 4}),
                         [](const auto& info) { return info.param.name; });

TEST(ElementType, CutsIntegersToTheirRange) {
  unsigned char byte = 7;
  ElementType::parse("uint8", 0, "test").store(&byte, 0, -3);
  EXPECT_EQ(byte, 0);
  ElementType::parse("uint8", 0, "test").store(&byte, 0, 300);
  EXPECT_EQ(byte, 255);
  std::int64_t large = 0;
  ElementType::parse("int64", 0, "test").store(&large, 0, 1e30);
  EXPECT_EQ(large, INT64_MAX);
  ElementType::parse("int64", 0, "test").store(&large, 0, -1e30);
  EXPECT_EQ(large, INT64_MIN);
  ElementType::parse("int64", 0, "test").store(&large, 0, NAN);
  EXPECT_EQ(large, 0);
}

TEST(ElementType, TakesCustomTypesByTheirSize) {
  const ElementType type = ElementType::parse("custom", 12, "test");
  EXPECT_EQ(type.bytes(), 12u);
  EXPECT_THROW(ElementType::parse("custom", 0, "test"), UserError);
}

TEST(ElementType, NamesAnUnknownTypeAndItsPlace) {
  for (const char* name : {"", "flaot", "float1", "float17", "floatx", "cudaTextureObject_t"}) {
    try {
      ElementType::parse(name, 0, "my.T1.json: argument x");
      FAIL() << name;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("my.T1.json: argument x: unknown Type"));
    }
  }
}

}  // namespace
}  // namespace knobwise
