// `run`: what an application gets from the runtime library, checked and timed.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "include/knobwise/dispatcher.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"
#include "tuner/cli/plan_run.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

// One problem as a person reads it.
struct Row {
  Problem problem;
  PlanDescription description;
  Outcome outcome;
  std::optional<BaselineRecord> baseline;
};

std::string speed(const Row& row) {
  if (!row.baseline) return "-";
  return fmt::format("{:.2f}x of {}", row.baseline->timing.time_us / row.outcome.timing.summary_us,
                     row.baseline->name);
}

void print(const Row& row, const std::string& requirement) {
  const PlanDescription& description = row.description;
  const double time = row.outcome.timing.summary_us;
  std::cout << description.problem << "\n"
            << fmt::format("  kernel    {} {}\n", description.family,
                           format_configuration(description.configuration.to_json()))
            << fmt::format("  from      {}{}{}\n", to_string(description.provenance),
                           description.database.empty() ? "" : ", ", description.database)
            << fmt::format("  time      {}, {}{}\n", format_time(time),
                           format_rate(static_cast<double>(row.problem.flops()), time),
                           description.predicted_us
                               ? fmt::format(" (stored: {})", format_time(*description.predicted_us))
                               : "");
  if (row.baseline) std::cout << fmt::format("  against   {}\n", speed(row));
  std::cout << fmt::format("  error     max {:.1e}, rel {:.1e} over {} outputs: {} '{}'\n",
                           row.outcome.error.max_abs, row.outcome.error.rel_fro, row.outcome.error.checked,
                           row.outcome.accepted ? "meets" : "DOES NOT MEET", requirement);
  for (const std::string& note : description.notes) std::cout << "  note      " << note << "\n";
}

void print_table(const std::vector<Row>& rows) {
  constexpr const char* kFormat = "{:>10}  {:>15}  {:<28}  {:>9}  {}\n";
  std::cout << fmt::format(kFormat, "time", "rate", "speed", "max error", "accuracy");
  for (const Row& row : rows) {
    const double time = row.outcome.timing.summary_us;
    std::cout << row.description.problem << "\n"
              << fmt::format(kFormat, format_time(time),
                             format_rate(static_cast<double>(row.problem.flops()), time), speed(row),
                             fmt::format("{:.1e}", row.outcome.error.max_abs),
                             row.outcome.accepted ? "met" : "NOT MET")
              << fmt::format("  {} {}\n", row.description.family,
                             format_configuration(row.description.configuration.to_json()));
  }
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json document = nlohmann::json::parse(row.description.to_json());
  document["run"] = {
      {"time_us", row.outcome.timing.summary_us},
      {"gflops", static_cast<double>(row.problem.flops()) / row.outcome.timing.summary_us * 1e-3},
      {"max_abs", row.outcome.error.max_abs},
      {"rel_fro", row.outcome.error.rel_fro},
      {"frac_outside", row.outcome.error.frac_outside},
      {"checked", row.outcome.error.checked},
      {"accepted", row.outcome.accepted},
      {"seed", row.outcome.seed}};
  document["baseline"] = nullptr;
  if (row.baseline)
    document["baseline"] = {{"name", row.baseline->name}, {"time_us", row.baseline->timing.time_us}};
  return document;
}

// The databases that can be read, those that cannot having been said; none where none is there yet.
std::optional<LayeredStore> stores_of(const std::vector<std::filesystem::path>& paths, bool wanted) {
  const bool any = std::ranges::any_of(paths, [](const auto& path) { return std::filesystem::exists(path); });
  if (wanted || any) return open_databases(paths);
  return std::nullopt;
}

// The fastest stored baseline of a problem on a device, from the first database that has one.
std::optional<BaselineRecord> stored_baseline(const LayeredStore& stores, const Problem& problem,
                                              const DeviceInfo& device) {
  for (std::size_t i = 0; i < stores.size(); ++i) {
    const Store& store = stores.layer(i);
    const auto problem_id = store.find_problem(problem.to_string());
    const auto device_id = store.find_device(device_record(device));
    if (!problem_id || !device_id) continue;
    const std::vector<BaselineRecord> baselines = store.baselines(*problem_id, *device_id);
    // A vendor library says more than our own starting point, even where it is slower.
    for (const BaselineRecord& baseline : baselines) {
      if (baseline.name.find("default") == std::string::npos) return baseline;
    }
    if (!baselines.empty()) return baselines.front();
  }
  return std::nullopt;
}

std::vector<Problem> stored_problems(const LayeredStore& stores, const DeviceInfo& device) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    const Store& store = stores.layer(i);
    const auto device_id = store.find_device(device_record(device));
    if (!device_id) continue;
    for (const auto& [id, problem] : store.problems()) {
      if (problem.op.starts_with("user:") || store.trials(id, *device_id).empty()) continue;
      if (std::find(lines.begin(), lines.end(), problem.line) == lines.end()) lines.push_back(problem.line);
    }
  }
  std::vector<Problem> problems;
  for (const std::string& line : lines) problems.push_back(Problem::parse(line));
  return problems;
}

// The lookup's answer; where it has none, that and what would give it one is said.
std::optional<Plan> plan_for(Dispatcher& dispatcher, const Problem& problem, const Requirement& requirement,
                             const std::filesystem::path& database) {
  try {
    return dispatcher.plan(problem, requirement);
  } catch (const UserError& error) {
    if (!problem.user.empty()) throw;  // no result would help
    std::cerr << fmt::format(
        "knobwise: {}; store a result: knobwise tune '{}' --db {}, or allow more steps\n", error.what(),
        problem.to_string(), database.string());
    return std::nullopt;
  }
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_device(options);
  add_accuracy(options);
  options.add_options()                                                                             //
      ("all", "run every problem that was tuned for the device, and print a table")                 //
      ("seed", po::value<std::int64_t>()->value_name("N"), "of the inputs [a new one every time]")  //
      ("allow", po::value<std::string>()->default_value("all")->value_name("STEPS"),
       "steps of the lookup that may answer: exact,nearest,family_default,vendor,reference")  //
      ("trust", po::value<std::vector<std::string>>()->composing()->value_name("FILE"),
       "run machine code for the processor that this one of the databases holds; may be repeated "
       "(docs/security.md)");
  add_json(options);
  const auto variables =
      parse(arguments,
            {"run PROBLEM|--all [OPTIONS]",
             "Looks the problem up through the runtime library, runs the kernel on fresh inputs,\n"
             "checks the output against float64 and times it.",
             "  knobwise run 'conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu' --allow exact\n"
             "  knobwise run --all --db tuned.db\n"},
            options, "problem", false);
  if (!variables) return kSuccess;
  const bool all = variables->count("all") > 0;
  if (all == (variables->count("problem") > 0))
    throw UserError("give either a problem or --all; see 'knobwise run --help'");

  DispatcherOptions dispatching;
  dispatching.databases = database_paths(*variables);
  if (variables->count("trust")) {
    for (const std::string& path : (*variables)["trust"].as<std::vector<std::string>>())
      dispatching.trusted.emplace_back(path);
  }
  const auto [device, info] = chosen_device(*variables);
  dispatching.device = device;
  dispatching.on_new_plan = [](const PlanDescription&) {};  // it is printed below
  Requirement requirement;
  requirement.accuracy = accuracy(*variables);
  requirement.allow = ProvenanceSet::parse((*variables)["allow"].as<std::string>());

  const std::vector<std::filesystem::path> given = dispatching.databases;
  const std::optional<LayeredStore> stores = stores_of(given, all);
  if (stores) {
    dispatching.databases.clear();
    for (std::size_t i = 0; i < stores->size(); ++i) dispatching.databases.push_back(stores->layer(i).path());
  }
  std::vector<Problem> problems;
  if (all) {
    problems = stored_problems(*stores, info);
    if (problems.empty())
      throw UserError(fmt::format("nothing was tuned for {} in these databases", info.name));
  } else {
    problems.push_back(Problem::parse((*variables)["problem"].as<std::vector<std::string>>().front()));
  }
  Dispatcher dispatcher(dispatching);
  for (const std::string& note : dispatcher.notes()) std::cerr << "note: " << note << "\n";

  std::vector<Row> rows;
  bool accepted = true, served = true;
  for (const Problem& problem : problems) {
    if (all) std::cerr << fmt::format("running {}\n", problem.to_string());
    std::optional<Plan> plan = plan_for(dispatcher, problem, requirement, given.front());
    if (!plan) {
      served = false;
      continue;
    }
    const std::uint64_t seed = variables->count("seed") ? cli::seed(*variables) : std::random_device{}();
    const Outcome outcome = run_plan(*plan, device, *requirement.accuracy, seed);
    rows.push_back({problem, plan->description(), outcome,
                    stores ? stored_baseline(*stores, problem, info) : std::nullopt});
    accepted = accepted && outcome.accepted;
  }
  if (rows.empty()) return kJobFailed;
  if (variables->count("json")) {
    nlohmann::json document = nlohmann::json::array();
    for (const Row& row : rows) document.push_back(to_json(row));
    print_json(all ? document : document[0]);
  } else if (all) {
    print_table(rows);
  } else {
    print(rows.front(), requirement.accuracy->to_string());
  }
  return accepted && served ? kSuccess : kJobFailed;
}

}  // namespace knobwise::cli
