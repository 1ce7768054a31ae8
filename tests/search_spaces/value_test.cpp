#include "search_spaces/value.h"

#include <gtest/gtest.h>

#include <random>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

Configuration sample_configuration() {
  return Configuration(
      {{"tile_w", std::int64_t{16}}, {"fast", true}, {"ratio", 0.5}, {"precision", std::string("fp32")}});
}

TEST(Value, PrintsCanonicalText) {
  EXPECT_EQ(to_string(Value(true)), "true");
  EXPECT_EQ(to_string(Value(std::int64_t{-16})), "-16");
  EXPECT_EQ(to_string(Value(0.5)), "0.5");
  EXPECT_EQ(to_string(Value(0.1)), "0.1");
  EXPECT_EQ(to_string(Value(2.0)), "2.0");
  EXPECT_EQ(to_string(Value(std::string("fp32"))), "fp32");
}

TEST(Value, RealTextReadsBackTheSame) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 150);
    EXPECT_EQ(std::stod(to_string(Value(value))), value);
  }
}

TEST(Configuration, FindsAndConvertsKnobs) {
  const Configuration configuration = sample_configuration();
  EXPECT_EQ(configuration.integer("tile_w"), 16);
  EXPECT_EQ(configuration.integer("fast"), 1);
  EXPECT_EQ(configuration.text("precision"), "fp32");
  EXPECT_EQ(configuration.find("missing"), nullptr);
  EXPECT_THROW(configuration.integer("missing"), std::out_of_range);
  EXPECT_THROW(configuration.integer("ratio"), std::out_of_range);
  EXPECT_THROW(configuration.text("tile_w"), std::out_of_range);
}

TEST(Configuration, JsonIsInKnobOrderAndReadsBackTheSame) {
  const Configuration configuration = sample_configuration();
  EXPECT_EQ(configuration.to_json(), R"({"tile_w":16,"fast":true,"ratio":0.5,"precision":"fp32"})");
  EXPECT_EQ(Configuration::from_json(configuration.to_json()), configuration);
}

TEST(Configuration, JsonKeepsTypesAndEscapes) {
  const Configuration configuration(
      {{"whole", 2.0}, {"quote\"d", std::string("a\\b\n\"c\"")}, {"least", INT64_MIN}});
  EXPECT_EQ(Configuration::from_json(configuration.to_json()), configuration);
}

TEST(Configuration, RejectsJsonThatIsNotAFlatObject) {
  for (const char* json :
       {"", "[1]", "{\"a\":[1]}", "{\"a\":null}", "{\"a\":{}}", "{\"a\":1", "{\"a\":18446744073709551615}"}) {
    EXPECT_THROW(Configuration::from_json(json), UserError) << json;
  }
}

}  // namespace
}  // namespace knobwise
