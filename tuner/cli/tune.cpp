// `tune` and `sweep`: searching one problem, or every problem of a file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/device.h"
#include "reports/ceilings.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/problem_file.h"
#include "tuner/cli/progress.h"
#include "tuner/session.h"
#include "tuner/strategies/strategy.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t kDefaultTrials = 100;
constexpr int kMostJobs = 1024;
constexpr double kLongestSeconds = 1e9;  // three decades; clocks count nanoseconds in 64 bits

// One problem on one kind of device.
struct Tuned {
  Problem problem;
  SessionResult result;
  std::optional<FloorTime> floor;  // of the best
};

void add_search(Options& options) {
  std::string strategies;
  for (const auto& [name, explanation] : strategy_names()) {
    strategies += fmt::format("{}{} ({})", strategies.empty() ? "" : "; ", name, explanation);
  }
  options.add_options()  //
      ("strategy", po::value<std::string>()->default_value("auto")->value_name("NAME"),
       strategies.c_str())  //
      ("seed", po::value<std::int64_t>()->default_value(0)->value_name("N"),
       "of the search and of the inputs")  //
      ("max-trials", po::value<std::int64_t>()->value_name("N"),
       fmt::format("configurations to try, besides the vendor library's [{} unless --max-time is given]",
                   kDefaultTrials)
           .c_str())  //
      ("max-time", po::value<double>()->value_name("SECONDS"),
       "per problem; a trial that runs is finished, and the vendor library gets a quarter")  //
      ("family", po::value<std::vector<std::string>>()->composing()->value_name("NAME"),
       "search only this kernel family; may be repeated")  //
      ("store-code",
       "keep the machine code of the best configuration, at every named accuracy, in the database: "
       "applications then need no compiler (docs/security.md says when it is run)")  //
      ("jobs,j", po::value<int>()->value_name("N"),
       "compile workers, for all devices together [all cores]")  //
      ("end-with", po::value<pid_t>()->value_name("PID"),
       "end as by Ctrl-C when this process, which must be the parent, has ended")  //
      ("no-overlap",
       "compile and measure one configuration after the other: with --jobs 1, what the pipeline is compared "
       "with");
}

SessionOptions session_options(const Variables& variables, const std::vector<std::string>& arguments,
                               const char* command, const UserKernel* kernel = nullptr) {
  SessionOptions options;
  options.executable = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const auto& [name, info] : chosen_devices(variables, kernel)) options.devices.push_back({name, info});
  options.kernel = kernel;
  options.strategy = variables["strategy"].as<std::string>();
  options.seed = seed(variables);
  if (variables.count("max-trials")) options.max_trials = variables["max-trials"].as<std::int64_t>();
  if (variables.count("max-time")) options.max_seconds = variables["max-time"].as<double>();
  if (options.max_trials && *options.max_trials < 1)
    throw UserError("--max-trials: give a number of at least 1");
  if (options.max_seconds && !(*options.max_seconds > 0 && *options.max_seconds <= kLongestSeconds))
    throw UserError(fmt::format("--max-time: give seconds above 0, of at most {:.0f}", kLongestSeconds));
  if (!options.max_trials && !options.max_seconds) options.max_trials = kDefaultTrials;
  options.accuracy = accuracy(variables);
  if (variables.count("family")) {
    for (const std::string& name : variables["family"].as<std::vector<std::string>>()) {
      if (std::find(options.families.begin(), options.families.end(), name) == options.families.end())
        options.families.push_back(name);
    }
  }
  if (kernel) {
    if (!options.families.empty())
      throw UserError("--family does not go with --kernel, which is the only one");
    options.families = {std::string(kernel->name())};
  }
  options.jobs =
      variables.count("jobs") ? variables["jobs"].as<int>() : list_devices(nullptr).front().multiprocessors;
  options.store_code = variables.count("store-code") > 0;
  if (options.jobs < 1 || options.jobs > kMostJobs)
    throw UserError(fmt::format("--jobs: give a number of at least 1, and at most {}", kMostJobs));
  options.overlap = variables.count("no-overlap") == 0;
  options.command_line = std::string("knobwise ") + command;
  for (const std::string& argument : arguments) {
    options.command_line +=
        argument.find_first_of(" |*?$\"") == std::string::npos ? " " + argument : " '" + argument + "'";
  }
  options.interrupted = InterruptGuard::flag();
  return options;
}

// --configuration, with its family.
std::vector<std::pair<std::string, Configuration>> chosen_configurations(const Variables& variables,
                                                                         const SessionOptions& session) {
  if (!variables.count("configuration")) return {};
  if (session.families.size() != 1)
    throw UserError("--configuration belongs to one kernel family: name it with --family");
  const std::string text = variables["configuration"].as<std::string>();
  if (!nlohmann::json::parse(text, nullptr, false).is_object())
    throw UserError(fmt::format("--configuration: '{}' is no JSON object with a value for each knob", text));
  return {{session.families.front(), Configuration::from_json(text)}};
}

nlohmann::json to_json(const Tuned& tuned) {
  const SessionResult& result = tuned.result;
  nlohmann::json document = {{"problem", tuned.problem.to_string()},
                             {"device", result.device},
                             {"state", to_string(result.state)},
                             {"evaluated", result.evaluated},
                             {"reused", result.reused},
                             {"failed", result.failed},
                             {"seconds", result.seconds},
                             {"search_seconds", result.search_seconds},
                             {"busy_share", result.busy_share},
                             {"best", nullptr},
                             {"baselines", nlohmann::json::object()}};
  if (result.best) {
    document["best"] = {{"family", result.best_family},
                        {"configuration", nlohmann::ordered_json::parse(result.best->configuration)},
                        {"time_us", result.best->timing->time_us}};
    if (tuned.problem.user.empty()) document["best"]["flops"] = tuned.problem.flops();
    if (tuned.floor) document["best"]["floor"] = cli::to_json(*tuned.floor);
  }
  for (const BaselineRecord& baseline : result.baselines)
    document["baselines"][baseline.name] = baseline.timing.time_us;
  return document;
}

void print(const Tuned& tuned) {
  const SessionResult& result = tuned.result;
  std::cout << tuned.problem.to_string() << "\n";
  std::cout << fmt::format("  device    {}: {}\n", result.device, result.info.name);
  if (result.best) {
    const double time = result.best->timing->time_us;
    std::cout << fmt::format("  best      {} {}\n", result.best_family,
                             format_configuration(result.best->configuration));
    std::cout << fmt::format("  time      {}\n", format_speed(tuned.problem, time));
    if (tuned.floor) std::cout << fmt::format("  limit     {}\n", format_floor(*tuned.floor, time));
    for (const BaselineRecord& baseline : result.baselines) {
      std::cout << fmt::format("  against   {:.2f}x of {} ({})\n", baseline.timing.time_us / time,
                               baseline.name, format_time(baseline.timing.time_us));
    }
    std::cout << fmt::format("  error     {}\n", format_errors(result.best->errors));
  } else {
    std::cout << "  no configuration succeeded and is accurate enough\n";
  }
  const double trials = static_cast<double>(result.evaluated);
  std::cout << fmt::format(
      "  trials    {} measured, {} on record before, {} failed; {:.1f} s, {:.2f} trials/s, device busy "
      "{:.0f}%\n",
      result.evaluated, result.reused, result.failed, result.seconds,
      trials / std::max(result.search_seconds, 1e-3), 100 * result.busy_share);
}

std::vector<Tuned> tune_one(Store& store, const Problem& problem, const SessionOptions& options,
                            const std::string& subject) {
  Progress progress(subject);
  std::vector<Tuned> all;
  for (SessionResult& result : knobwise::tune(store, problem, options, progress)) {
    std::optional<FloorTime> floor;
    if (result.best) {
      floor = floor_time(store.device(result.best->device), problem_record(problem), result.best->precision);
    }
    all.push_back({problem, std::move(result), floor});
  }
  return all;
}

bool all_have_a_best(const std::vector<Tuned>& tuned) {
  return std::all_of(tuned.begin(), tuned.end(),
                     [](const Tuned& one) { return one.result.best.has_value(); });
}

Store open_for_writing(const Variables& variables) {
  return Store::open(database_paths(variables).front(), Store::Mode::read_write);
}

int report_interruption(const SessionOptions& session) {
  std::cerr << "interrupted; every finished trial is stored. To go on, run the same command:\n  "
            << session.command_line << "\n";
  return kJobFailed;
}

}  // namespace

int tune(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_devices(options, "best");
  add_kernel(options);
  add_search(options);
  options.add_options()(
      "configuration", po::value<std::string>()->value_name("JSON"),
      "instead of a search: only this configuration of the --family, as reports give it for a trial");
  add_accuracy(options);
  add_json(options);
  const auto variables =
      parse(arguments,
            {"tune PROBLEM|--kernel FILE [OPTIONS]",
             "Searches the fastest configuration for a problem on a device. Every trial is verified\n"
             "against float64, timed and stored at once; Ctrl-C ends cleanly, and the same command\n"
             "goes on where it stopped, measuring nothing twice.",
             "  knobwise tune 'conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu'\n"
             "  knobwise tune 'conv1d n=16 c=128 w=1024 k=256 s=3 pad=1' --max-time 60 --db site.db\n"
             "  knobwise tune 'conv1d n=16 c=128 w=1024 k=256 s=3 pad=1' --device cuda:all\n"
             "  knobwise tune --kernel transpose.T1.json --problem-size 8192x8192\n"},
            options, "problem", false);
  if (!variables) return kSuccess;
  const UserKernel* kernel = chosen_kernel(*variables);
  const Problem problem = chosen_problem(*variables, kernel);
  InterruptGuard guard;
  if (variables->count("end-with")) end_with((*variables)["end-with"].as<pid_t>());
  SessionOptions session = session_options(*variables, arguments, "tune", kernel);
  session.configurations = chosen_configurations(*variables, session);
  Store store = open_for_writing(*variables);
  const std::vector<Tuned> tuned = tune_one(store, problem, session, "tune");
  nlohmann::json document = nlohmann::json::array();
  for (const Tuned& one : tuned) variables->count("json") ? document.push_back(to_json(one)) : print(one);
  if (variables->count("json")) print_json(tuned.size() > 1 ? document : document[0]);
  if (*session.interrupted) return report_interruption(session);
  return all_have_a_best(tuned) ? kSuccess : kJobFailed;
}

int sweep(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_devices(options, "best");
  add_search(options);
  add_accuracy(options);
  options.add_options()("keep-going,k", "go on after a bad line or a problem that fails");
  add_json(options);
  const auto variables = parse(arguments,
                               {"sweep FILE [OPTIONS]",
                                "Tunes every problem of a file: one problem a line, # begins a comment.\n"
                                "The budget holds for each problem.",
                                "  knobwise sweep model.txt --db model.db --max-trials 200\n"},
                               options, "file");
  if (!variables) return kSuccess;
  const std::string path = (*variables)["file"].as<std::vector<std::string>>().front();
  const bool keep_going = variables->count("keep-going") > 0;
  std::vector<ProblemLine> lines;
  const int bad = read_problems(path, lines);
  if (bad > 0 && !keep_going) {
    throw UserError(fmt::format("{}: {} bad line{}; nothing was tuned (--keep-going tunes the rest)", path,
                                bad, bad > 1 ? "s" : ""));
  }
  if (lines.empty()) throw UserError(fmt::format("{}: no problems in it; give one problem a line", path));
  InterruptGuard guard;
  const SessionOptions session = session_options(*variables, arguments, "sweep");
  Store store = open_for_writing(*variables);
  nlohmann::json document = nlohmann::json::array();
  bool failed = false;
  for (std::size_t i = 0; i < lines.size() && !*session.interrupted; ++i) {
    try {
      const std::vector<Tuned> tuned =
          tune_one(store, lines[i].problem, session, fmt::format("[{}/{}]", i + 1, lines.size()));
      for (const Tuned& one : tuned) variables->count("json") ? document.push_back(to_json(one)) : print(one);
      failed = failed || !all_have_a_best(tuned);
    } catch (const UserError& error) {
      if (!keep_going) throw;
      std::cerr << fmt::format("{}:{}: {}\n", path, lines[i].number, error.what());
      failed = true;
    }
  }
  if (variables->count("json")) print_json(document);
  if (*session.interrupted) return report_interruption(session);
  if (bad > 0) return kBadRequest;
  return failed ? kJobFailed : kSuccess;
}

}  // namespace knobwise::cli
