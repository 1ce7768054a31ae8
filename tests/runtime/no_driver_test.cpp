// No CUDA driver, or no device: said, and the CPU serves.
#include <gmock/gmock.h>

#include "include/knobwise/dispatcher.h"
#include "include/knobwise/knobwise.h"
#include "kernels/device.h"

namespace knobwise::test {
namespace {

TEST(NoDriver, IsAUserErrorThatSaysSoAndLeavesTheBestDeviceToTheCpu) {
  if (list_devices(nullptr).size() > 1) GTEST_SKIP() << "there is a CUDA device";
  try {
    Dispatcher dispatcher({.device = "cuda"});
    FAIL() << "there is no device";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("CUDA"));
  }
  knobwise_dispatcher* dispatcher = nullptr;
  EXPECT_EQ(knobwise_open(nullptr, 0, "cuda:0", &dispatcher), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(dispatcher, nullptr);
  EXPECT_EQ(Dispatcher({.device = "best"}).device().backend, Backend::cpu);
}

}  // namespace
}  // namespace knobwise::test
