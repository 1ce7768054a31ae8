// The best stored configuration against the vendor library's best, both verified and timed again in this run.
//
//   knobwise_reference_bench DB [device=best] [problems=bench/reference_problems.txt]
//
// For each problem of a file, in fp32 within 1e-4, in fp32 at TF32's accuracy, and with 16-bit tensors: the
// fastest configuration that DB holds of our families and of the vendor's (`knobwise sweep` fills it). The
// candidates of a problem are timed in turn, as the finalists of a session are. The roofline is that of the
// ceilings which `knobwise devices --calibrate` stored in DB. Exit status 1 when an output misses its
// requirement or nothing could be compared.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "db/store.h"
#include "kernels/device.h"
#include "reports/ceilings.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tests/tuner/self_worker.h"
#include "tuner/cli/command.h"
#include "tuner/cli/place.h"
#include "tuner/cli/problem_file.h"
#include "tuner/evaluation/evaluator.h"

namespace knobwise {
namespace {

constexpr int kRounds = 3;
constexpr int kFirstSamples = 3;  // while verifying; what counts is timed in turn afterwards

// A configuration on record, and what became of it in this run.
struct Candidate {
  const KernelFamily* family = nullptr;
  std::string configuration, precision;
  std::vector<ErrorRecord> errors;
  std::optional<double> time_us;
  std::string reason;  // why there is no time
};

// One line of the table; indices into the candidates of its problem.
struct Row {
  std::string accuracy;
  std::optional<std::size_t> ours, vendor;
};

struct Comparison {
  std::string label;
  Problem problem;
  std::vector<Row> rows;
  std::vector<Candidate> candidates;
};

bool is_vendor(const KernelFamily& family) {
  return family.builtin() && family.name() != "reference";
}

// The vendor's families of a backend, or all others but the reference, as they are in this build.
std::vector<FamilyRecord> versions(Backend backend, bool vendor) {
  std::vector<FamilyRecord> records;
  for (const KernelFamily* family : families(backend)) {
    if (family->name() != "reference" && is_vendor(*family) == vendor)
      records.push_back(family_record(*family));
  }
  return records;
}

class ReferenceBench {
 public:
  ReferenceBench(const Store& store, std::string device)
      : store_(store), device_(std::move(device)), info_(open_device(device_)->info()) {
    const auto id = store_.find_device(device_record(info_));
    if (!id)
      throw UserError(
          fmt::format("{}: nothing is stored for {}; fill it: knobwise sweep FILE --device {} --db {}",
                      store_.path().string(), info_.name, device_, store_.path().string()));
    device_id_ = *id;
  }

  /// Measures what is on record for the problem and every accuracy word.
  Comparison compare(std::string label, const Problem& problem, const std::vector<std::string>& accuracies) {
    Comparison comparison{std::move(label), problem, {}, {}};
    for (const std::string& accuracy : accuracies) {
      const Row row{accuracy, choose(comparison, accuracy, false), choose(comparison, accuracy, true)};
      if (row.ours || row.vendor) {
        comparison.rows.push_back(row);
      } else {
        std::cerr << fmt::format(
            "{} {}: no current result is stored; knobwise tune '{}' --accuracy {} --device {} --db {}\n",
            comparison.label, accuracy, problem.to_string(), accuracy, device_, store_.path().string());
      }
    }
    if (!comparison.rows.empty()) measure(comparison);
    return comparison;
  }

  const DeviceInfo& info() const { return info_; }
  DeviceRecord device() const { return store_.device(device_id_); }

 private:
  std::optional<std::size_t> choose(Comparison& comparison, const std::string& accuracy, bool vendor) {
    const auto problem = store_.find_problem(comparison.problem.to_string());
    if (!problem) return std::nullopt;
    const auto best = store_
                          .best(*problem, device_id_, accuracy_limits(AccuracyRequirement::parse(accuracy)),
                                CurrentVersions(versions(info_.backend, vendor)))
                          .trial;
    if (!best) return std::nullopt;
    Candidate candidate;
    candidate.family = find_family(info_.backend, store_.family(best->family).name);
    candidate.configuration = best->configuration;
    candidate.precision = best->precision;
    std::vector<Candidate>& all = comparison.candidates;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].family == candidate.family && all[i].configuration == candidate.configuration) return i;
    }
    all.push_back(std::move(candidate));
    return all.size() - 1;
  }

  void measure(Comparison& comparison) {
    EvaluatorOptions options;
    options.executable = "/proc/self/exe";
    options.groups = {{info_, {device_}}};
    options.problem = comparison.problem;
    options.jobs = static_cast<int>(comparison.candidates.size());
    options.timing.min_samples = options.timing.max_samples = kFirstSamples;
    Evaluator evaluator(std::move(options));
    std::vector<EvaluationRequest> requests;
    for (const Candidate& candidate : comparison.candidates) {
      requests.push_back(
          {requests.size(), 0, candidate.family, Configuration::from_json(candidate.configuration)});
      evaluator.submit(requests.back());
    }
    const auto forever = Evaluator::Clock::time_point::max();
    while (const auto result = evaluator.wait(forever)) {
      Candidate& candidate = comparison.candidates[result->request.id];
      candidate.errors = result->trial.errors;
      candidate.reason = result->trial.reason;
    }
    std::vector<EvaluationRequest> verified;
    for (const EvaluationRequest& request : requests) {
      if (comparison.candidates[request.id].reason.empty()) verified.push_back(request);
    }
    const std::vector<Retiming> timings = evaluator.retime(verified, kRounds, forever);
    for (std::size_t i = 0; i < timings.size(); ++i) {
      Candidate& candidate = comparison.candidates[verified[i].id];
      candidate.reason = timings[i].reason;
      if (timings[i].timing) candidate.time_us = timings[i].timing->summary_us;
    }
  }

  const Store& store_;
  std::string device_;
  DeviceInfo info_;
  std::int64_t device_id_ = 0;
};

bool met(const Candidate& candidate, const std::string& accuracy) {
  return candidate.time_us && meets(candidate.errors, accuracy_limits(AccuracyRequirement::parse(accuracy)));
}

std::string time_text(const Comparison& comparison, std::optional<std::size_t> index) {
  if (!index) return "-";
  const Candidate& candidate = comparison.candidates[*index];
  return candidate.time_us ? fmt::format("{:.1f}", *candidate.time_us) : "failed";
}

// Largest error of one kind over the distributions.
std::string error_text(const Candidate& candidate, double ErrorRecord::*error) {
  double largest = 0;
  for (const ErrorRecord& record : candidate.errors) largest = std::max(largest, record.*error);
  return fmt::format("{:.1e}", largest);
}

// Prints one line; whether the outputs of both candidates met the requirement.
bool print(const Comparison& comparison, const Row& row, const DeviceRecord& device) {
  const Candidate* ours = row.ours ? &comparison.candidates[*row.ours] : nullptr;
  const Candidate* vendor = row.vendor ? &comparison.candidates[*row.vendor] : nullptr;
  std::string ratio = "-", share = "-", resource = "-";
  if (ours && ours->time_us) {
    if (vendor && vendor->time_us) ratio = fmt::format("{:.2f}x", *vendor->time_us / *ours->time_us);
    if (const auto floor = floor_time(device, problem_record(comparison.problem), ours->precision)) {
      share = fmt::format("{:.0f}%", 100 * floor->time_us / *ours->time_us);
      resource = (floor->measured ? "" : "~") + floor->resource;
    }
  }
  const bool both_met = (!ours || met(*ours, row.accuracy)) && (!vendor || met(*vendor, row.accuracy));
  if (!both_met) ratio = "NOT MET";
  std::cout << fmt::format("{:<4}{:<8}{:>10} {:>10} {:>8}{:>9}  {:<7}{:>9}{:>9}\n", comparison.label,
                           row.accuracy, time_text(comparison, row.ours), time_text(comparison, row.vendor),
                           ratio, share, resource, ours ? error_text(*ours, &ErrorRecord::max_abs) : "-",
                           ours ? error_text(*ours, &ErrorRecord::rel_fro) : "-");
  return both_met;
}

void print_candidates(const Comparison& comparison) {
  std::cout << fmt::format("{} {}\n", comparison.label, comparison.problem.to_string());
  for (const Row& row : comparison.rows) {
    for (const auto& index : {row.ours, row.vendor}) {
      if (!index) continue;
      const Candidate& candidate = comparison.candidates[*index];
      const std::string verdict = !candidate.reason.empty()      ? ": " + candidate.reason
                                  : met(candidate, row.accuracy) ? ""
                                                                 : ": NOT MET";
      std::cout << fmt::format("   {}: {} {}{}\n", row.accuracy, candidate.family->name(),
                               cli::format_configuration(candidate.configuration), verdict);
    }
  }
}

// The accuracies to ask of each form of a problem.
std::vector<std::pair<Problem, std::vector<std::string>>> forms(const Problem& problem) {
  if (problem.dtype == DType::f16) return {{problem, {"half"}}};
  if (problem.dtype == DType::bf16) return {{problem, {"bf16"}}};
  Problem half = problem;
  half.dtype = DType::f16;
  return {{problem, {"allclose", "tf32"}}, {half, {"half"}}};
}

int bench(const std::string& database, const std::string& device, const std::string& file) {
  std::vector<cli::ProblemLine> lines;
  if (cli::read_problems(file, lines) > 0) return cli::kBadRequest;
  if (lines.empty()) throw UserError(fmt::format("{}: no problems in it; give one problem a line", file));
  const Store store = Store::open(database, Store::Mode::read_only);
  ReferenceBench bench(store, device);
  std::string vendor = "vendor";
  for (const KernelFamily* family : families(bench.info().backend)) {
    if (is_vendor(*family)) vendor = family->name();
  }
  std::cout << fmt::format("{}: microseconds, errors of ours; ~ a limit as rated\n", bench.info().name);
  std::cout << fmt::format("{:<4}{:<8}{:>10} {:>10} {:>8}{:>9}  {:<7}{:>9}{:>9}\n", "", "accuracy", "ours",
                           vendor, "ratio", "of limit", "limit", "max", "rel");
  std::vector<Comparison> comparisons;
  bool all_met = true;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const auto& [problem, accuracies] : forms(lines[i].problem)) {
      Comparison comparison = bench.compare(fmt::format("P{}", i + 1), problem, accuracies);
      for (const Row& row : comparison.rows) all_met = print(comparison, row, bench.device()) && all_met;
      std::cout << std::flush;
      if (!comparison.rows.empty()) comparisons.push_back(std::move(comparison));
    }
  }
  for (const Comparison& comparison : comparisons) print_candidates(comparison);
  return all_met && !comparisons.empty() ? cli::kSuccess : cli::kJobFailed;
}

}  // namespace
}  // namespace knobwise

int main(int argc, char** argv) {
  int status = 0;
  if (knobwise::test::served_as_worker(argc, argv, status)) return status;
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (argc < 2 || argc > 4 || argument(1, "").starts_with('-')) {
    std::cerr << "usage: knobwise_reference_bench DB [device=best] [problems=bench/reference_problems.txt]\n";
    return knobwise::cli::kBadRequest;
  }
  try {
    return knobwise::bench(argument(1, ""), argument(2, "best"), argument(3, "bench/reference_problems.txt"));
  } catch (const knobwise::UserError& error) {
    std::cerr << "knobwise_reference_bench: " << knobwise::cli::format_error(error);
    return knobwise::cli::kBadRequest;
  } catch (const std::exception& error) {
    std::cerr << "knobwise_reference_bench: " << error.what() << "\n";
    return knobwise::cli::kJobFailed;
  }
}
