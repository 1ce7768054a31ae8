// A driver that is too old: said, and the CPU serves.
#include <cuda.h>
#include <gmock/gmock.h>

#include "include/knobwise/dispatcher.h"
#include "include/knobwise/knobwise.h"

namespace knobwise::test {
namespace {

using ::testing::HasSubstr;

TEST(OldDriver, IsNamedWithWhatItLacks) {
  int version = 0;
  ASSERT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
  ASSERT_EQ(version, 6000) << "another driver than this test's was loaded";
  try {
    Dispatcher dispatcher({.device = "cuda"});
    FAIL() << "it cannot serve";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the CUDA driver is too old: libcuda.so.1 has no cu"));
  }
  knobwise_dispatcher* dispatcher = nullptr;
  EXPECT_EQ(knobwise_open(nullptr, 0, "cuda:0", &dispatcher), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("too old"));
}

TEST(OldDriver, LeavesTheBestDeviceToTheCpu) {
  EXPECT_EQ(Dispatcher({.device = "best"}).device().backend, Backend::cpu);
}

}  // namespace
}  // namespace knobwise::test
