// The probes for the roofline's ceilings compile for every architecture and keep their operands in registers.
#include "kernels/ceilings.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvrtc.h"

namespace knobwise {
namespace {

class CeilingProbes : public testing::TestWithParam<int> {};

TEST_P(CeilingProbes, CompileWithoutSpills) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  const DeviceInfo target = cuda_target_info(GetParam());
  std::map<std::string, int> probes;
  for (const CeilingProbe& probe : cuda_ceiling_probes(target)) {
    SCOPED_TRACE(probe.instance.run[0].function);
    ++probes[probe.resource];
    EXPECT_GT(probe.work, 0);
    const Resources resources = cuda_compile(probe.instance, target).resources;
    EXPECT_EQ(resources.spill_bytes, 0);
    EXPECT_EQ(resources.stack_bytes, 0);
  }
  for (const char* resource : {"memory", "fp32", "tf32", "fp16", "bf16"})
    EXPECT_TRUE(probes.contains(resource)) << resource;
}

INSTANTIATE_TEST_SUITE_P(Architectures, CeilingProbes, testing::Values(80, 86, 89, 90, 100, 120));

}  // namespace
}  // namespace knobwise
