#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/records.h"
#include "tuner/cli/command.h"

namespace knobwise::cli {
namespace {

std::optional<FloorTime> floor_of(const Problem& problem, const LayeredBest& answer) {
  return floor_time(answer.device, problem_record(problem), answer.trial.precision);
}

nlohmann::json to_json(const Problem& problem, const LayeredBest& answer, const std::string& database,
                       const Store& store) {
  const SessionRecord session = store.session(answer.trial.session);
  nlohmann::json errors = nlohmann::json::object();
  for (const ErrorRecord& error : answer.trial.errors) {
    errors[error.distribution] = {{"max_abs", error.max_abs},
                                  {"mean_abs", error.mean_abs},
                                  {"rms", error.rms},
                                  {"rel_fro", error.rel_fro},
                                  {"frac_outside", error.frac_outside}};
  }
  const auto floor = floor_of(problem, answer);
  nlohmann::json document = {{"problem", problem.to_string()},
                             {"family", answer.family.name},
                             {"configuration", nlohmann::ordered_json::parse(answer.trial.configuration)},
                             {"time_us", answer.trial.timing->time_us},
                             {"floor", floor ? cli::to_json(*floor) : nlohmann::json()},
                             {"errors", errors},
                             {"provenance",
                              {{"kind", "exact"},
                               {"device_match", to_string(answer.match)},
                               {"database", database},
                               {"device", answer.device.name},
                               {"architecture", answer.device.architecture},
                               {"driver", answer.environment.driver_version},
                               {"toolkit", answer.environment.toolkit_version},
                               {"compiler", answer.environment.compiler},
                               {"measured", answer.trial.started},
                               {"session", session.uuid}}}};
  if (problem.user.empty())
    document["gflops"] = static_cast<double>(problem.flops()) / answer.trial.timing->time_us * 1e-3;
  return document;
}

// What is looked up for a user's problem without its files is of any version of the kernel.
CurrentVersions current_versions(const Problem& problem, const UserKernel* kernel, Backend backend) {
  if (!problem.user.empty() && !kernel) return {};
  return current_families(backend);
}

std::string how_to_tune(const Problem& problem, const UserKernel* kernel) {
  if (kernel)
    return fmt::format("--kernel {}{}", kernel->file().string(),
                       problem.rank == 0 ? "" : " --problem-size " + size_text(problem_size(problem)));
  return problem.user.empty() ? fmt::format("'{}'", problem.to_string()) : "--kernel FILE";
}

}  // namespace

int best(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_device(options);
  add_kernel(options);
  add_accuracy(options);
  add_json(options);
  const auto variables =
      parse(arguments,
            {"best PROBLEM|--kernel FILE [OPTIONS]",
             "Looks up the fastest stored configuration that meets the accuracy, measured for this\n"
             "very problem with the kernels of this build: on an equal device, else on one of equal\n"
             "architecture and size, else on one of the same architecture, and says which.",
             "  knobwise best 'conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu'\n"
             "  knobwise best 'conv1d n=16 c=128 w=1024 k=256 s=3' --accuracy tf32 --json\n"
             "  knobwise best --kernel transpose.T1.json\n"},
            options, "problem", false);
  if (!variables) return kSuccess;
  const UserKernel* kernel = chosen_kernel(*variables);
  const Problem problem = chosen_problem(*variables, kernel);
  const AccuracyRequirement requirement = accuracy(*variables);
  const DeviceInfo device = chosen_device(*variables, kernel).info;
  const auto paths = database_paths(*variables);
  const LayeredStore stores = open_databases(paths);
  std::vector<std::string> notes;
  const auto answer = stores.best(problem.to_string(), device_record(device), accuracy_limits(requirement),
                                  current_versions(problem, kernel, device.backend), &notes);
  for (const std::string& note : notes) std::cerr << "note: " << note << "\n";
  if (!answer) {
    std::cerr << fmt::format(
        "knobwise: nothing stored for '{}' on {} that meets '{}'; tune it: knobwise tune {} --db {}\n",
        problem.to_string(), device.name, requirement.to_string(), how_to_tune(problem, kernel),
        paths.front().string());
    return kJobFailed;
  }
  const Store& store = stores.layer(answer->layer);
  const std::string database = store.path().string();
  if (variables->count("json")) {
    print_json(to_json(problem, *answer, database, store));
    return kSuccess;
  }
  const double time = answer->trial.timing->time_us;
  const auto floor = floor_of(problem, *answer);
  const std::string compiler = answer->environment.toolkit_version + answer->environment.compiler;
  std::cout << problem.to_string() << "\n"
            << fmt::format("  best      {} {}\n", answer->family.name,
                           format_configuration(answer->trial.configuration))
            << fmt::format("  time      {}\n", format_speed(problem, time))
            << (floor ? fmt::format("  limit     {}\n", format_floor(*floor, time)) : "")
            << fmt::format("  error     {}\n", format_errors(answer->trial.errors))
            << fmt::format("  from      {}: measured {} on {}, {}{}\n", database, answer->trial.started,
                           answer->device.name,
                           answer->environment.driver_version.empty()
                               ? ""
                               : fmt::format("driver {}, ", answer->environment.driver_version),
                           compiler);
  if (answer->match != DeviceMatch::same_device) {
    std::cout << fmt::format(
        "  device    not this one ({}), but of the {}{}\n", device.name, to_string(answer->match),
        answer->match == DeviceMatch::same_architecture ? ": the time does not carry over" : "");
  }
  return kSuccess;
}

}  // namespace knobwise::cli
