#include "tuner/evaluation/measurement.h"

#include <fmt/format.h>

#include <chrono>

#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/messages.h"

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Measurement::Measurement(Device& device, const Problem& problem, std::unique_ptr<TestBench> bench)
    : device_(device), problem_(problem), bench_(std::move(bench)), buffers_(bench_->buffers()) {}

std::unique_ptr<Executable> Measurement::make_executable(const Candidate& candidate) {
  if (candidate.family->builtin()) {
    return candidate.family->create_builtin(problem_, candidate.configuration, device_);
  }
  return device_.load(candidate.family->instantiate(problem_, candidate.configuration, device_.info()),
                      candidate.code);
}

void Measurement::bind(const Executable& executable) {
  const auto provide = [this](std::unique_ptr<GuardedBuffer>& buffer, std::size_t bytes,
                              const char* purpose) {
    if (bytes == 0) {
      buffer.reset();
    } else if (!buffer || buffer->bytes() != bytes) {
      buffer.reset();  // before the new one: both may not fit
      buffer = std::make_unique<GuardedBuffer>(device_, bytes, purpose);
    }
    return buffer ? buffer->data() : nullptr;
  };
  buffers_.packed = provide(packed_, executable.packed_bytes(), "packed weights");
  buffers_.workspace = provide(workspace_, executable.workspace_bytes(), "workspace");
}

const GuardedBuffer* Measurement::damaged() const {
  for (const GuardedBuffer* buffer : {packed_.get(), workspace_.get()}) {
    if (buffer && !buffer->intact()) return buffer;
  }
  return bench_->damaged();
}

void Measurement::verify(Executable& executable, const Candidate& candidate, TrialRecord& record) {
  const double bound = bench_->error_bound(candidate.configuration);
  const OutputTile tile = candidate.family->tile(problem_, candidate.configuration);
  for (Distribution distribution : bench_->distributions()) {
    bench_->fill(distribution);
    if (packed_) packed_->poison();
    if (workspace_) workspace_->poison();
    executable.prepare(buffers_, nullptr);
    executable.run(buffers_, nullptr);
    device_.synchronize();
    const ErrorMetrics metrics = bench_->verify(tile);
    record.errors.push_back(error_record(distribution, metrics));
    if (const GuardedBuffer* buffer = damaged()) {
      throw TrialError("out_of_bounds", fmt::format("wrote outside its {} buffer", buffer->purpose()));
    }
    if (metrics.nans > 0) {
      throw TrialError("wrong_result", fmt::format("{} of {} checked outputs are NaN or were never written "
                                                   "where the reference is a number, or the "
                                                   "other way round ({} inputs)",
                                                   metrics.nans, metrics.checked, to_string(distribution)));
    }
    if (!(metrics.rel_fro <= bound) && !bench_->is_zero(metrics)) {
      throw TrialError(
          "wrong_result",
          fmt::format("relative error {:.3g} on {} inputs, above the {:.3g} that the precision mode explains",
                      metrics.rel_fro, to_string(distribution), bound));
    }
  }
}

TrialRecord Measurement::evaluate(const Candidate& candidate, const TimingOptions& timing,
                                  const std::function<void()>& quiet) {
  TrialRecord record;
  try {
    const std::unique_ptr<Executable> executable = make_executable(candidate);
    record.resources = resource_record(executable->resources());
    record.extra = extra_facts(executable->resources());
    bind(*executable);
    const Clock::time_point verify_start = Clock::now();
    verify(*executable, candidate, record);
    record.verify_seconds = seconds_since(verify_start);
    quiet();
    const Clock::time_point measure_start = Clock::now();
    record.timing = timing_record(device_.time(*executable, buffers_, timing), device_.info().backend);
    const DeviceState state = device_.state();
    record.clock_khz = state.clock_khz;
    record.temperature_c = state.temperature_c;
    record.measure_seconds = seconds_since(measure_start);
  } catch (const TrialError& error) {
    record.status = parse_trial_status(error.status());
    record.reason = error.what();
  } catch (const UserError& error) {  // the candidate's own buffers do not fit
    record.status = TrialStatus::out_of_memory;
    record.reason = error.what();
  }
  return record;
}

Timing Measurement::time(const Candidate& candidate, const TimingOptions& options) {
  const std::unique_ptr<Executable> executable = make_executable(candidate);
  bind(*executable);
  bench_->fill(bench_->distributions().back());
  executable->prepare(buffers_, nullptr);
  return device_.time(*executable, buffers_, options);
}

}  // namespace knobwise
