// The published spaces load unchanged and hold exactly the recorded configurations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "search_spaces/space.h"

namespace knobwise {
namespace {

constexpr const char* kFolder = "../shared/recorded_spaces/";

struct Recording {
  const char* space;
  const char* results;
  std::uint64_t size;
};

std::string unzipped(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(fmt::format("gzip -dc '{}'", path).c_str(), "r"),
                                                   pclose);
  std::string text;
  char buffer[65536];
  for (std::size_t n = 0; pipe && (n = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;)
    text.append(buffer, n);
  return text;
}

class RecordedSpaces : public testing::TestWithParam<Recording> {};

TEST_P(RecordedSpaces, HoldsExactlyTheRecordedConfigurations) {
  const std::string space_path = std::string(kFolder) + GetParam().space;
  if (!std::filesystem::exists(space_path)) GTEST_SKIP() << space_path << " is absent";
  const BoundSpace space = SearchSpace::load(space_path).bind();
  EXPECT_EQ(space.size(), GetParam().size);

  const auto document = nlohmann::json::parse(unzipped(std::string(kFolder) + GetParam().results));
  std::set<std::uint64_t> seen;
  for (const auto& result : document.at("results")) {
    const Configuration configuration = Configuration::from_json(result.at("configuration").dump());
    const auto index = space.index_of(configuration);
    ASSERT_TRUE(index.has_value()) << configuration.to_json() << *space.violation(configuration);
    seen.insert(*index);
  }
  EXPECT_EQ(seen.size(), space.size());
}

TEST_P(RecordedSpaces, DefaultIsTheDeclaredOne) {
  const std::string space_path = std::string(kFolder) + GetParam().space;
  if (!std::filesystem::exists(space_path)) GTEST_SKIP() << space_path << " is absent";
  const BoundSpace space = SearchSpace::load(space_path).bind();
  const Configuration configuration = space.configuration(space.default_index());
  EXPECT_EQ(configuration.integer("block_size_x"), 16);
  EXPECT_EQ(configuration.integer("block_size_y"), 16);
  EXPECT_EQ(configuration.integer("use_padding"), 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, RecordedSpaces,
    testing::Values(Recording{"convolution_milo.T1.json", "convolution_milo.A100.T4.json.gz", 4362},
                    Recording{"convolution.T1.json", "convolution.RTX_2080_Ti.T4.json.gz", 6768}),
    [](const auto& info) {
      return std::string(info.param.space).substr(0, std::string(info.param.space).find('.'));
    });

}  // namespace
}  // namespace knobwise
