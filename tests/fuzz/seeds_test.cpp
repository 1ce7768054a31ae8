// Every seed, whole and damaged, through its target: what fuzzing found stays fixed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace knobwise::fuzz {
namespace {

namespace fs = std::filesystem;

struct Target {
  const char* name;
  void (*run)(std::string_view);
  int damaged;  ///< Variants of each seed.
};

class Seeds : public ::testing::TestWithParam<Target> {
 protected:
  static std::vector<std::string> seeds() {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(fs::path("tests/fuzz/seeds") / GetParam().name)) {
      std::ifstream file(entry.path(), std::ios::binary);
      all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return all;
  }
};

TEST_P(Seeds, EndWithAResultOrAUserError) {
  const std::vector<std::string> all = seeds();
  ASSERT_FALSE(all.empty());
  for (const std::string& seed : all) EXPECT_NO_THROW(GetParam().run(seed)) << seed.substr(0, 200);
}

TEST_P(Seeds, DamagedAnywhereToo) {
  std::mt19937 random(1);
  for (const std::string& seed : seeds()) {
    if (seed.empty()) continue;
    for (int variant = 0; variant < GetParam().damaged; ++variant) {
      std::string text = seed;
      for (unsigned hits = 1 + random() % 4; hits > 0; --hits)
        text[random() % text.size()] = static_cast<char>(random());
      if (variant % 3 == 0) text.resize(random() % text.size());
      EXPECT_NO_THROW(GetParam().run(text)) << text.substr(0, 200);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Seeds,
                         ::testing::Values(Target{"t1", t1, 300}, Target{"t4", t4, 100},
                                           Target{"csv", csv, 100}, Target{"problem", problem, 300},
                                           Target{"database", database, 15}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace knobwise::fuzz
