#include "runtime/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace knobwise::runtime_detail
