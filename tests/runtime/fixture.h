// What the tests of the lookup share: a fake machine, databases on disk, tensors.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "db/store.h"
#include "include/knobwise/dispatcher.h"
#include "tests/runtime/fake_backend.h"

namespace knobwise::test {

/// A trial to put on record; what is not said is plausible.
struct TrialSpec {
  std::string problem;
  Configuration configuration;
  double time_us = 100;
  double error = 1e-7;  ///< Relative; above 1e-4 outside allclose.
  std::string family = "tiled";
  std::string hash = "v1";
  std::optional<DeviceInfo> device = std::nullopt;  ///< None: the machine at hand.
};

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// The path of a database of this test that holds the trials (created, or added to).
  std::filesystem::path database(const std::string& name, const std::vector<TrialSpec>& trials);
  std::filesystem::path folder() const { return folder_; }
  /// Options with a code cache of this test and a silent log.
  DispatcherOptions options(std::vector<std::filesystem::path> databases);

  std::vector<PlanDescription> decided_;  ///< What on_new_plan received.

 private:
  std::mutex mutex_;  // of decided_: several threads may report at once
  std::filesystem::path folder_;
};

/// Tensors of a problem with fixed contents, and the right output.
struct Operands {
  explicit Operands(const Problem& problem, std::uint64_t seed = 7);
  std::vector<ConstBuffer> parameter_buffers() const;

  std::vector<float> input, output;
  std::vector<std::vector<float>> parameters;
  std::vector<double> expected;
};

/// The largest |output - expected|; NaN counts as infinite.
double largest_error(const Operands& operands);

}  // namespace knobwise::test
