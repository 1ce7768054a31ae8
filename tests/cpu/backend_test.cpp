// The CPU backend: compiling, loading, memory, timing, and how each of them fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/cpu/host_compiler.h"
#include "kernels/cpu/machine.h"
#include "kernels/cpu/temporary_directory.h"
#include "search_spaces/user_error.h"
#include "tests/cpu/harness.h"
#include "tests/tuner/processes.h"

namespace knobwise {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Sets an environment variable for the life of the object.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

KernelInstance instance_of(const std::string& source) {
  KernelInstance instance;
  instance.source = source;
  KernelLaunch launch;
  launch.function = "task";
  launch.grid[0] = 5;
  launch.block[0] = 2;
  launch.arguments = {{Slot::output, 0}};
  instance.run.push_back(launch);
  return instance;
}

const char* const kSquares =
    "extern \"C\" void task(void* const* arguments, long long task) {\n"
    "  static_cast<float*>(arguments[0])[task] = static_cast<float>(task * task);\n}\n";

TrialError failure_of(const KernelInstance& instance) {
  try {
    cpu_compile(instance, cpu().info());
  } catch (const TrialError& error) {
    return error;
  }
  return {"no failure", ""};
}

TEST(CpuCompile, GivesCodeThatRuns) {
  const KernelInstance instance = instance_of(kSquares);
  const CompiledCode code = cpu_compile(instance, cpu().info());
  EXPECT_GT(code.seconds, 0);
  EXPECT_EQ(code.resources.binary_bytes, static_cast<std::int64_t>(code.image.size()));
  const auto executable = cpu().load(instance, code);
  float output[5] = {};
  Buffers buffers;
  buffers.output = output;
  executable->run(buffers, nullptr);
  EXPECT_THAT(output, ::testing::ElementsAre(0, 1, 4, 9, 16));
}

TEST(CpuCompile, ReportsTheFirstErrorLineAndLeavesNoFile) {
  const TemporaryDirectory folder;
  const Setting setting("TMPDIR", folder.path());
  const TrialError error =
      failure_of(instance_of("int fine;\nint broken = nonsense;\nint more = trouble;\n"));
  EXPECT_EQ(error.status(), "compile_failed");
  EXPECT_THAT(error.what(), StartsWith("kernel.cpp:2:"));
  EXPECT_THAT(error.what(), HasSubstr("nonsense"));
  EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

std::string complaint_about(const KernelInstance& instance) {
  try {
    cpu_compile(instance, cpu().info());
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(CpuCompile, AMissingCompilerNamesTheRemedy) {
  const Setting setting("KNOBWISE_CXX", "/nowhere/c++");
  const std::string complaint = complaint_about(instance_of(kSquares));
  EXPECT_THAT(complaint, HasSubstr("/nowhere/c++"));
  EXPECT_THAT(complaint, HasSubstr("KNOBWISE_CXX"));
  EXPECT_EQ(host_compiler_version(), "");
}

TEST(CpuCompile, AFullDiskIsNoFaultOfTheSource) {
  const TemporaryDirectory folder;
  const std::string script = folder.path() + "/cxx";
  std::ofstream(script)
      << "#!/bin/sh\necho 'fatal error: writing kernel.s: No space left on device' >&2\nexit 1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Setting compiler("KNOBWISE_CXX", script);
  const std::string complaint = complaint_about(instance_of(kSquares));
  EXPECT_THAT(complaint, HasSubstr("disk is full"));
  EXPECT_THAT(complaint, HasSubstr("TMPDIR"));
}

TEST(CpuCompile, TooManyOpenFilesAreNoFullDisk) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(STDOUT_FILENO);
  close(next);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(next) + 1;  // the folder's lock, and no file in it
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::string complaint = complaint_about(instance_of(kSquares));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(complaint, HasSubstr(std::strerror(EMFILE)));
}

TEST(CpuCompile, ATemporaryFolderThatIsNotThereNamesTheRemedy) {
  const Setting setting("TMPDIR", "/nowhere");
  EXPECT_THAT(complaint_about(instance_of(kSquares)), HasSubstr("set TMPDIR"));
}

TEST(CpuCompile, TheEnvironmentChoosesTheCompilerAndItsFirstOptions) {
  const Setting setting("KNOBWISE_CXX", "c++ -DCHOSEN=3");
  const CompiledCode code =
      cpu_compile(instance_of(std::string("static_assert(CHOSEN == 3);\n") + kSquares), cpu().info());
  EXPECT_FALSE(code.image.empty());
}

TEST(CpuCompile, AStuckCommandIsStoppedWithItsChildren) {
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult result =
      run_command({"sh", "-c", "sleep 60 & sleep 60; echo done"}, "", std::chrono::milliseconds(200));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_status, -1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(CpuCompile, ACommandEndsWithTheProcessThatStartedIt) {
  test::adopt_orphans();
  for (int round = 0; round < 10; ++round) {
    const pid_t starter = fork();
    if (starter == 0) {
      run_command({"sh", "-c", "sleep 60 & sleep 60"}, "", std::chrono::seconds(60));
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(4 * round));
    kill(starter, SIGKILL);
    waitpid(starter, nullptr, 0);
    EXPECT_EQ(test::left_behind(), std::set<pid_t>()) << "round " << round;
  }
}

TEST(TemporaryDirectories, OfKilledProcessesAreRemovedAndNoOthers) {
  const TemporaryDirectory folder;
  const Setting setting("TMPDIR", folder.path());
  const std::filesystem::path root = folder.path(), foreign = root / "knobwise-XXXXXX",
                              link = root / "knobwise-compile-link";
  std::filesystem::create_directory(foreign);
  std::filesystem::create_directory_symlink(foreign, link);
  const TemporaryDirectory used;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const TemporaryDirectory lost;
    std::ofstream(lost.path() + "/kernel.cpp") << "int x;";
    (void)!write(ends[1], lost.path().c_str(), lost.path().size() + 1);
    pause();
  }
  char lost[256] = {};
  ASSERT_GT(read(ends[0], lost, sizeof lost), 0);
  remove_abandoned_directories();
  EXPECT_TRUE(std::filesystem::exists(lost)) << "its process lives";
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  remove_abandoned_directories();
  EXPECT_FALSE(std::filesystem::exists(lost));
  for (const auto& kept : {std::filesystem::path(used.path()), foreign, link})
    EXPECT_TRUE(std::filesystem::exists(kept)) << kept;
  close(ends[0]);
  close(ends[1]);
}

TEST(TemporaryDirectories, AreNotRemovedByOthersThatBegin) {
  const TemporaryDirectory folder;
  const Setting setting("TMPDIR", folder.path());
  std::vector<pid_t> processes;
  for (int i = 0; i < 4; ++i) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    for (int round = 0; round < 300; ++round) {
      const TemporaryDirectory mine;
      remove_abandoned_directories();
      if (!(std::ofstream(mine.path() + "/file") << "content" << std::flush)) _exit(1);
    }
    _exit(0);
  }
  for (const pid_t process : processes) {
    int status = 1;
    waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// dlopen() returns the library it has when it knows the path: several kernels at once must stay apart.
TEST(CpuLoad, KernelsLoadedTogetherStayApart) {
  const KernelInstance squares = instance_of(kSquares);
  const KernelInstance doubles = instance_of(
      "extern \"C\" void task(void* const* arguments, long long task) {\n"
      "  static_cast<float*>(arguments[0])[task] = static_cast<float>(2 * task);\n}\n");
  const auto first = cpu().load(squares, cpu_compile(squares, cpu().info()));
  auto dropped = cpu().load(squares, cpu_compile(squares, cpu().info()));
  dropped.reset();
  const auto second = cpu().load(doubles, cpu_compile(doubles, cpu().info()));
  float output[5] = {};
  Buffers buffers;
  buffers.output = output;
  second->run(buffers, nullptr);
  EXPECT_THAT(output, ::testing::ElementsAre(0, 2, 4, 6, 8));
  first->run(buffers, nullptr);
  EXPECT_THAT(output, ::testing::ElementsAre(0, 1, 4, 9, 16));
}

TEST(CpuLoad, KeepsNoFileOpenForWhatIsLoaded) {
  const KernelInstance instance = instance_of(kSquares);
  const CompiledCode code = cpu_compile(instance, cpu().info());
  const auto open_files = [] {
    std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  std::vector<std::unique_ptr<Executable>> loaded;
  loaded.push_back(cpu().load(instance, code));
  const auto before = open_files();
  for (int i = 0; i < 20; ++i) loaded.push_back(cpu().load(instance, code));
  EXPECT_EQ(open_files(), before);
}

TEST(CpuLoad, ABrokenImageOrAMissingFunctionIsATrialError) {
  const KernelInstance instance = instance_of(kSquares);
  CompiledCode code;
  code.image = "not a shared object";
  EXPECT_THROW(cpu().load(instance, code), TrialError);
  KernelInstance other = instance;
  other.run[0].function = "absent";
  try {
    cpu().load(other, cpu_compile(instance, cpu().info()));
    FAIL() << "loaded without the function";
  } catch (const TrialError& error) {
    EXPECT_EQ(error.status(), "launch_failed");
    EXPECT_THAT(error.what(), HasSubstr("absent"));
  }
}

TEST(CpuDevice, MoreMemoryThanThereIsNamesBothFigures) {
  try {
    cpu().allocate(std::size_t{1} << 50, "the input");
    FAIL() << "allocated a petabyte";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the input needs 1125899906.8 MB"));
    EXPECT_THAT(error.what(), HasSubstr("are free"));
  }
}

// Else a second buffer is given what the first has not touched yet.
TEST(CpuDevice, MemoryThatIsGivenIsNoLongerFree) {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::int64_t total = 0, pages = 0;
    file >> total >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const std::int64_t before = resident();
  const auto buffer = cpu().allocate(kBytes, "a test");
  EXPECT_GT(resident() - before, static_cast<std::int64_t>(kBytes * 9 / 10));
}

TEST(CpuDevice, MemoryIsAlignedAndWritable) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5} << 20}) {
    const auto buffer = cpu().allocate(bytes, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
    EXPECT_EQ(buffer->bytes(), bytes);
    cpu().fill_bytes(buffer->data(), 0xab, bytes);
    std::vector<unsigned char> copy(bytes);
    cpu().download(copy.data(), buffer->data(), bytes);
    EXPECT_TRUE(std::all_of(copy.begin(), copy.end(), [](unsigned char c) { return c == 0xab; }));
  }
}

TEST(CpuDevice, DescribesItself) {
  const DeviceInfo& info = cpu().info();
  EXPECT_EQ(info.backend, Backend::cpu);
  EXPECT_FALSE(info.vendor.empty());
  EXPECT_FALSE(info.name.empty());
  EXPECT_THAT(info.architecture, ::testing::AnyOf(StartsWith("x86-64"), "aarch64"));
  EXPECT_GE(info.multiprocessors, 1);
  EXPECT_TRUE(info.vector_bytes == 16 || info.vector_bytes == 32 || info.vector_bytes == 64);
  EXPECT_GT(info.memory_bytes, info.free_memory_bytes);
  EXPECT_FALSE(cpu_compiler_version().empty());
  const DeviceInfo again = cpu_device_info();
  EXPECT_EQ(info.clock_khz, again.clock_khz);
  EXPECT_EQ(info.l2_bytes, again.l2_bytes);
}

/// An executable that waits as long as it is told.
class Wait : public Executable {
 public:
  explicit Wait(double us) : us_(us) {}
  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override { return 0; }
  void prepare(const Buffers&, Stream) override {}
  void run(const Buffers&, Stream) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us_);
    while (std::chrono::steady_clock::now() < end) {
    }
    ++runs;
  }
  int runs = 0;

 private:
  double us_;
};

TEST(CpuTiming, MeasuresTheRunWithoutTheFlush) {
  Wait wait(2000);
  TimingOptions options;
  options.max_samples = 8;
  const Timing timing = cpu().time(wait, {}, options);
  EXPECT_GE(timing.min_us, 2000);
  EXPECT_LT(timing.min_us, 3000);
  EXPECT_GE(timing.samples_us.size(), 5u);
  EXPECT_FALSE(timing.abandoned);
}

TEST(CpuTiming, ASlowKernelIsGivenUpAtOnce) {
  Wait wait(20000);
  TimingOptions options;
  options.abandon_above_us = 1000;
  const Timing timing = cpu().time(wait, {}, options);
  EXPECT_TRUE(timing.abandoned);
  EXPECT_EQ(wait.runs, 1);
  EXPECT_GE(timing.summary_us, 20000);
}

TEST(CpuTiming, AtLeastOneSampleHoweverLong) {
  Wait wait(3000);
  TimingOptions options;
  options.warmup = 0;
  options.max_seconds = 0.001;
  const Timing timing = cpu().time(wait, {}, options);
  EXPECT_EQ(timing.samples_us.size(), 1u);
}

TEST(CpuFamilies, TheReferenceIsLast) {
  ASSERT_FALSE(cpu_families().empty());
  EXPECT_EQ(cpu_families().front()->name(), "direct_conv");
  EXPECT_EQ(cpu_families().back()->name(), "reference");
}

/// A folder that stands for /sys.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string pattern = (std::filesystem::temp_directory_path() / "knobwise-XXXXXX").string();
    root = mkdtemp(pattern.data());
  }
  ~FakeSysfs() { std::filesystem::remove_all(root); }
  void put(const std::string& file, const std::string& content) const {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << content << "\n";
  }
  std::filesystem::path root;
};

TEST(Sensors, TheFastestProcessorsClockCounts) {
  const FakeSysfs sys;
  sys.put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1200000");
  sys.put("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3400000");
  sys.put("devices/system/cpu/possible", "0-1");
  EXPECT_EQ(current_clock_khz(sys.root), 3'400'000);
}

TEST(Sensors, TheProcessorsOwnSensorComesBeforeTheThermalZone) {
  const FakeSysfs sys;
  EXPECT_FALSE(processor_temperature_c(sys.root));
  sys.put("class/thermal/thermal_zone0/type", "acpitz");
  sys.put("class/thermal/thermal_zone0/temp", "20000");
  EXPECT_FALSE(processor_temperature_c(sys.root)) << "the case's, not the processor's";
  sys.put("class/thermal/thermal_zone1/type", "x86_pkg_temp");
  sys.put("class/thermal/thermal_zone1/temp", "61000");
  EXPECT_EQ(processor_temperature_c(sys.root), 61);
  sys.put("class/hwmon/hwmon0/name", "nvme");
  sys.put("class/hwmon/hwmon0/temp1_input", "35000");
  sys.put("class/hwmon/hwmon1/name", "k10temp");
  sys.put("class/hwmon/hwmon1/temp1_input", "58500");
  EXPECT_EQ(processor_temperature_c(sys.root), 58.5);
}

}  // namespace
}  // namespace knobwise
