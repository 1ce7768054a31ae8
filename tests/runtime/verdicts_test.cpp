#include "runtime/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/device.h"

namespace knobwise::runtime_detail {
namespace {

TEST(Verdicts, KeyTellsTheCompilersOptions) {
  std::vector<std::string> notes;
  const DeviceInfo cpu = list_devices(&notes).front();
  const Problem problem = Problem::parse("conv1d n=1 c=4 w=16 k=8 s=3");
  const KernelFamily& family = *find_family(Backend::cpu, "direct_conv");
  const BoundSpace space = bind_space(family, problem, cpu);
  EXPECT_THAT(Verdicts::key(problem, family, space.configuration(space.default_index()), cpu),
              testing::HasSubstr(compile_options(cpu)));
}

TEST(Verdicts, AFileThatIsDamagedOrCannotBeReadIsNone) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("knobwise-verdicts-" + std::to_string(getpid()));
  const Verdicts verdicts(folder);
  EXPECT_FALSE(verdicts.find("kernel"));
  verdicts.store("kernel", {.max_abs = 0.5});
  ASSERT_TRUE(verdicts.find("kernel"));
  EXPECT_EQ(verdicts.find("kernel")->max_abs, 0.5);
  const fs::path file = fs::directory_iterator(folder)->path();
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"key": 5})", R"({"key": "kernel"})",
                           R"({"key": "kernel", "max_abs": "small"})"}) {
    std::ofstream(file) << text;
    EXPECT_FALSE(verdicts.find("kernel")) << text;
  }
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_FALSE(verdicts.find("kernel")) << "a folder";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace knobwise::runtime_detail
