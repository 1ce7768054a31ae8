#include "tests/runtime/fixture.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "db/identifiers.h"
#include "kernels/operands.h"
#include "kernels/reference.h"
#include "runtime/records.h"

namespace knobwise::test {

void RuntimeTest::SetUp() {
  static std::atomic<int> counter{0};
  folder_ = std::filesystem::temp_directory_path() /
            ("knobwise-runtime-" + std::to_string(getpid()) + "-" + std::to_string(counter++));
  std::filesystem::create_directories(folder_);
  machine().reset();
}

void RuntimeTest::TearDown() {
  std::filesystem::remove_all(folder_);
}

std::filesystem::path RuntimeTest::database(const std::string& name, const std::vector<TrialSpec>& trials) {
  const std::filesystem::path path = folder_ / name;
  Store store = Store::open(path, Store::Mode::read_write);
  std::int64_t order = 0;
  for (const TrialSpec& spec : trials) {
    const DeviceInfo& info = spec.device ? *spec.device : machine().info;
    TrialRecord trial;
    trial.device = store.intern_device(device_record(info));
    trial.environment = store.intern_environment(environment_record(info));
    trial.problem = store.intern_problem(problem_record(Problem::parse(spec.problem)));
    trial.family = store.intern_family({"cpu", spec.family, spec.hash});
    SessionRecord session;
    session.uuid = make_uuid();
    session.device = trial.device;
    session.environment = trial.environment;
    session.problem = trial.problem;
    session.strategy = "exhaustive";
    session.started = utc_now();
    trial.session = store.begin_session(session);
    trial.configuration = spec.configuration.to_json();
    trial.timing =
        TimingRecord{.time_us = spec.time_us, .min_us = spec.time_us, .mean_us = spec.time_us, .samples = {}};
    for (const char* distribution : {"uniform", "normal", "integers"}) {
      ErrorRecord error;
      error.distribution = distribution;
      error.max_abs = error.mean_abs = error.rms = error.rel_fro = spec.error;
      error.frac_outside = spec.error > 1e-4 ? 0.2 : 0.0;
      error.checked = 100;
      trial.errors.push_back(error);
    }
    trial.started = utc_now();
    trial.session_order = order++;
    store.insert_trial(trial);
  }
  return path;
}

DispatcherOptions RuntimeTest::options(std::vector<std::filesystem::path> databases) {
  return {.databases = std::move(databases),
          .device = "cpu",
          .code_cache = folder_ / "code",
          .on_new_plan = [this](const PlanDescription& description) {
            const std::lock_guard lock(mutex_);
            decided_.push_back(description);
          }};
}

Operands::Operands(const Problem& problem, std::uint64_t seed)
    : input(static_cast<std::size_t>(problem.input_extents().elements())),
      output(static_cast<std::size_t>(problem.output_extents().elements()),
             std::numeric_limits<float>::quiet_NaN()),
      expected(output.size()) {
  const auto fill = [&](std::vector<float>& tensor, int parameter) {
    fill_host(tensor.data(), DType::f32, static_cast<std::int64_t>(tensor.size()),
              operand_fill(problem, Distribution::uniform, seed, parameter));
  };
  fill(input, -1);
  Buffers buffers;
  buffers.input = input.data();
  int index = 0;
  for (const ParameterSpec& spec : problem.parameters()) {
    fill(parameters.emplace_back(static_cast<std::size_t>(spec.elements())), index++);
    buffers.parameters.push_back(parameters.back().data());
  }
  reference_output(problem, buffers, expected.data(), 1);
}

std::vector<ConstBuffer> Operands::parameter_buffers() const {
  return {parameters.begin(), parameters.end()};
}

double largest_error(const Operands& operands) {
  double largest = 0;
  for (std::size_t i = 0; i < operands.output.size(); ++i) {
    const double error = std::abs(operands.output[i] - operands.expected[i]);
    if (!(error <= largest)) largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
  return largest;
}

}  // namespace knobwise::test
