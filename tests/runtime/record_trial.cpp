#include "tests/runtime/record_trial.h"

#include "db/identifiers.h"
#include "runtime/records.h"

namespace knobwise::test {

std::int64_t record_trial(Store& store, const DeviceInfo& device, const Problem& problem,
                          const KernelFamily& family, const Configuration& configuration, double time_us,
                          const ErrorMetrics& error) {
  TrialRecord trial;
  trial.device = store.intern_device(device_record(device));
  trial.environment = store.intern_environment(environment_record(device));
  trial.problem = store.intern_problem(problem_record(problem));
  trial.family = store.intern_family(family_record(family));
  SessionRecord session;
  session.uuid = make_uuid();
  session.device = trial.device, session.environment = trial.environment, session.problem = trial.problem;
  session.strategy = "exhaustive";
  session.started = utc_now();
  trial.session = store.begin_session(session);
  trial.configuration = configuration.to_json();
  trial.timing = TimingRecord{.time_us = time_us, .min_us = time_us, .mean_us = time_us, .samples = {}};
  trial.errors = {error_record(Distribution::uniform, error)};
  trial.started = utc_now();
  return store.insert_trial(trial).id;
}

}  // namespace knobwise::test
