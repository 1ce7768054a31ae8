// The families and devices of all backends behind one set of functions.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/cpu_reference.h"
#include "kernels/device.h"
#include "kernels/reference.h"
#include "search_spaces/user_error.h"
#include "tests/kernels/tensors.h"

namespace knobwise {
namespace {

TEST(Registry, NamesAreUniqueAndTheReferenceComesLast) {
  for (Backend backend : {Backend::cpu, Backend::cuda}) {
    std::set<std::string_view> names;
    for (const KernelFamily* family : families(backend)) {
      EXPECT_EQ(family->backend(), backend) << family->name();
      EXPECT_TRUE(names.insert(family->name()).second) << family->name();
      EXPECT_EQ(find_family(backend, family->name()), family);
    }
  }
  ASSERT_FALSE(families(Backend::cpu).empty());
  EXPECT_EQ(families(Backend::cpu).back(), &cpu_reference_family());
  EXPECT_EQ(find_family(Backend::cpu, "no_such_family"), nullptr);
}

TEST(Registry, SourcesHaveDigests) {
  for (Backend backend : {Backend::cpu, Backend::cuda}) {
    for (const KernelFamily* family : families(backend))
      EXPECT_FALSE(family->source_hash().empty()) << family->name();
  }
}

TEST(Registry, CpuIsTheFirstDevice) {
  std::vector<std::string> notes;
  const std::vector<DeviceInfo> devices = list_devices(&notes);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].backend, Backend::cpu);
  EXPECT_GT(devices[0].multiprocessors, 0);
  for (const std::string& note : notes) EXPECT_EQ(note.find('\n'), std::string::npos) << note;
}

TEST(Registry, DeviceNamesAreCheckedStrictly) {
  EXPECT_EQ(open_device("cpu")->info().backend, Backend::cpu);
  for (const char* name :
       {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    EXPECT_THROW(open_device(name), UserError) << name;
  }
}

TEST(Registry, BestIsADeviceThatExists) {
  const std::vector<DeviceInfo> devices = list_devices(nullptr);
  const std::unique_ptr<Device> best = open_device("best");
  EXPECT_EQ(best->info().backend, devices.size() > 1 ? Backend::cuda : Backend::cpu);
}

TEST(ReferenceFamily, ComputesAnyProblemInItsType) {
  const std::unique_ptr<Device> device = open_device("cpu");
  const KernelFamily& family = cpu_reference_family();
  EXPECT_TRUE(family.builtin());
  for (const char* line :
       {"conv2d n=2 c=4 h=7 w=6 k=6 r=3 s=3 pad=1 groups=2 dtype=bf16 layout=nhwc bias | residual | gelu",
        "conv3d n=1 c=2 d=5 h=6 w=7 k=4 t=2 r=3 s=3 dtype=f16 | min depth | softmax channel",
        "conv1d n=2 c=3 w=17 k=8 s=3 pad=1 | group_norm groups=4 affine"}) {
    const Problem problem = Problem::parse(line);
    EXPECT_EQ(family.unsupported_reason(problem, device->info()), std::nullopt);
    const BoundSpace space = bind_space(family, problem, device->info());
    ASSERT_EQ(space.size(), 1u);
    const auto executable = family.create_builtin(problem, space.configuration(0), *device);
    Tensors tensors(problem, Distribution::normal, 4);
    std::vector<unsigned char> workspace(executable->workspace_bytes());
    tensors.buffers().workspace = workspace.data();
    executable->prepare(tensors.buffers(), nullptr);
    executable->run(tensors.buffers(), nullptr);

    std::vector<double> expected(static_cast<std::size_t>(tensors.outputs()));
    reference_output(problem, tensors.buffers(), expected.data(), 1);
    const double rounding = problem.dtype == DType::f32   ? 0x1p-24
                            : problem.dtype == DType::f16 ? 0x1p-11
                                                          : 0x1p-8;
    for (std::int64_t i = 0; i < tensors.outputs(); ++i) {
      const double value = expected[static_cast<std::size_t>(i)];
      EXPECT_NEAR(tensors.output(i), value, rounding * std::abs(value) + 1e-7) << line << " at " << i;
    }
  }
}

TEST(ReferenceFamily, HasNoSource) {
  EXPECT_THROW(cpu_reference_family().instantiate(Problem::parse("conv1d n=1 c=1 w=4 k=1 s=1"), {}, {}),
               std::logic_error);
}

TEST(DeviceInfoConstants, CarryThePrefixOfDevices) {
  for (const auto& [name, value] : DeviceInfo{}.constants()) EXPECT_TRUE(name.starts_with("device_")) << name;
}

TEST(Buffers, ResolveGivesTheBufferOfASlot) {
  int memory[6];
  Buffers buffers;
  buffers.input = &memory[0];
  buffers.output = &memory[1];
  buffers.parameters = {&memory[2], &memory[3]};
  buffers.packed = &memory[4];
  buffers.workspace = &memory[5];
  EXPECT_EQ(buffers.resolve({Slot::input}), &memory[0]);
  EXPECT_EQ(buffers.resolve({Slot::output}), &memory[1]);
  EXPECT_EQ(buffers.resolve({Slot::parameter, 1}), &memory[3]);
  EXPECT_EQ(buffers.resolve({Slot::packed}), &memory[4]);
  EXPECT_EQ(buffers.resolve({Slot::workspace}), &memory[5]);
  EXPECT_THROW(buffers.resolve({Slot::parameter, 2}), std::out_of_range);
}

TEST(KernelLaunch, HasATensorMapOfOneOfItsArguments) {
  KernelLaunch launch;
  launch.function = "f";
  launch.arguments = {{Slot::input}, {Slot::output}};
  launch.tensor_map.emplace().argument = 1;
  EXPECT_NO_THROW(check_arguments(launch));
  launch.tensor_map->argument = 2;
  EXPECT_THROW(check_arguments(launch), TrialError);
}

}  // namespace
}  // namespace knobwise
