// Records and files that the tests of the store share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "db/identifiers.h"
#include "db/store.h"

namespace knobwise::testing {

inline DeviceRecord gpu() {
  return {.backend = "cuda",
          .vendor = "NVIDIA",
          .name = "NVIDIA H200",
          .architecture = "sm_90",
          .multiprocessors = 132,
          .memory_bytes = 150'754'820'096,
          .clock_khz = 1'980'000,
          .memory_clock_khz = 3'201'000,
          .l2_bytes = 62'914'560,
          .shared_memory_per_block = 232'448,
          .extra = R"({"ecc":true})"};
}

inline EnvironmentRecord environment(const std::string& driver = "580.65") {
  return {.driver_version = driver,
          .toolkit_version = "13.0",
          .compiler = "g++ 12.2",
          .knobwise_version = "0.1.0",
          .os = "Linux 6.1"};
}

inline ProblemRecord problem(const std::string& line = "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7") {
  return {.line = line,
          .op = "conv2d",
          .dtype = "f32",
          .layout = "nchw",
          .epilogue = "",
          .rank = 2,
          .flops = 582'600'000'000,
          .compulsory_bytes = 789'700'000,
          .n = 8,
          .c = 64,
          .h = 512,
          .w = 256,
          .k = 128,
          .r = 5,
          .s = 7,
          .stride_h = 2,
          .pad_w = 3,
          .dilation_h = 4};
}

inline FamilyRecord family(const std::string& hash = "a1b2", const std::string& name = "direct_conv") {
  return {.backend = "cuda", .name = name, .source_hash = hash};
}

inline TimingRecord timing(double time_us) {
  return {.time_us = time_us,
          .kind = TimeKind::median,
          .min_us = time_us * 0.75,
          .mean_us = time_us * 1.25,
          .samples = {static_cast<float>(time_us), 0.1f, 3e7f}};
}

/// Errors of all three distributions, in the order in which they are read back.
inline std::vector<ErrorRecord> errors(double frac_outside = 0, double rel_fro = 1e-7) {
  std::vector<ErrorRecord> all;
  for (const char* distribution : {"integers", "normal", "uniform"}) {
    all.push_back({.distribution = distribution,
                   .max_abs = rel_fro * 10,
                   .mean_abs = rel_fro / 2,
                   .rms = rel_fro / 3,
                   .rel_fro = rel_fro,
                   .frac_outside = frac_outside,
                   .checked = 4096,
                   .nan_count = 0});
  }
  return all;
}

/// The rows that a trial refers to.
struct Ids {
  std::int64_t device = 0, environment = 0, problem = 0, family = 0, session = 0;
};

inline SessionRecord session(const Ids& ids) {
  return {.uuid = make_uuid(),
          .device = ids.device,
          .environment = ids.environment,
          .problem = ids.problem,
          .strategy = "random",
          .seed = 0xFFFF'FFFF'0000'0001,
          .max_trials = 200,
          .max_seconds = 60.5,
          .accuracy = "allclose",
          .started = utc_now(),
          .finished = std::nullopt,
          .state = SessionState::running,
          .command_line = "knobwise tune 'conv2d ...'",
          .host = "node7"};
}

inline Ids intern_all(Store& store) {
  Ids ids{.device = store.intern_device(gpu()),
          .environment = store.intern_environment(environment()),
          .problem = store.intern_problem(problem()),
          .family = store.intern_family(family())};
  ids.session = store.begin_session(session(ids));
  return ids;
}

inline std::string configuration(int number) {
  return "{\"tile\":" + std::to_string(number) + "}";
}

/// An ok trial; `number` is its configuration and its place in the session.
inline TrialRecord trial(const Ids& ids, int number, double time_us) {
  TrialRecord record;
  record.session = ids.session;
  record.device = ids.device;
  record.environment = ids.environment;
  record.problem = ids.problem;
  record.family = ids.family;
  record.configuration = configuration(number);
  record.precision = "fp32";
  record.timing = timing(time_us);
  record.errors = errors();
  record.started = utc_now();
  record.wall_seconds = number + 0.5;
  record.session_order = number;
  return record;
}

inline TrialRecord failed_trial(const Ids& ids, int number, TrialStatus status, const std::string& reason) {
  TrialRecord record = trial(ids, number, 1);
  record.status = status;
  record.reason = reason;
  record.timing.reset();
  record.errors.clear();
  return record;
}

/// A folder of its own for each test, removed at the end.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("knobwise-db-" + make_uuid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }

  std::filesystem::path folder_;
};

}  // namespace knobwise::testing
