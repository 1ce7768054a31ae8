// Measures the designs that engineers weigh by hand and stores them as trials like any other;
// scripts/weighed-designs makes docs/weighed_designs.md of them.
//
//   knobwise_weighed_designs DB [device=best] [designs=bench/weighed_designs.json]
//
// What is on record is not measured again.
#include <fmt/format.h>

#include <iostream>
#include <thread>

#include "bench/plain_conv_family.h"
#include "bench/weighed_designs.h"
#include "kernels/device.h"
#include "search_spaces/user_error.h"
#include "tests/tuner/self_worker.h"
#include "tuner/cli/command.h"
#include "tuner/cli/place.h"
#include "tuner/session.h"

namespace knobwise {
namespace {

constexpr double kSeconds = 0.25;  // of timing a design

// Says how each design did.
class Listener : public SessionListener {
 public:
  void note(const std::string& line) override { std::cerr << line << "\n"; }
  void trial(const TrialEvent& event) override {
    const TrialRecord& trial = *event.trial;
    std::cout << fmt::format("{:>10}  {} {}\n",
                             trial.timing ? cli::format_time(trial.timing->time_us) : to_string(trial.status),
                             event.family, cli::format_configuration(trial.configuration));
  }
};

int measure(const std::string& database, const std::string& device, const std::string& file) {
  const DeviceInfo info = open_device(device)->info();
  const std::vector<WeighedProblem> problems = read_weighed_designs(file);
  if (info.backend != Backend::cuda) throw UserError("the designs are for a GPU, and there is none here");
  Store store = Store::open(database, Store::Mode::read_write);
  for (const WeighedProblem& problem : problems) {
    SessionOptions options;
    options.executable = "/proc/self/exe";
    options.devices = {{device, info}};
    options.accuracy = AccuracyRequirement::parse("any");
    options.timing.max_seconds = kSeconds;
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    options.command_line = fmt::format("knobwise_weighed_designs {} {} {}", database, device, file);
    for (const WeighedDesign& design : problem.designs) {
      try {
        options.configurations.emplace_back(design.family,
                                            design_configuration(design, problem.problem, info));
      } catch (const UserError& error) {  // the list is made for one device, with cuDNN
        std::cerr << fmt::format("{}: left out: {}\n", problem.label, error.what());
      }
    }
    if (options.configurations.empty()) continue;
    std::cout << fmt::format("{} {}\n", problem.label, problem.problem.to_string());
    Listener listener;
    tune(store, problem.problem, options, listener);
  }
  return cli::kSuccess;
}

}  // namespace
}  // namespace knobwise

int main(int argc, char** argv) {
  knobwise::register_family(knobwise::direct_conv_designs_family());
  knobwise::register_family(knobwise::plain_conv_family());
  int status = 0;
  if (knobwise::test::served_as_worker(argc, argv, status)) return status;
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (argc < 2 || argc > 4 || argument(1, "").starts_with('-')) {
    std::cerr << "usage: knobwise_weighed_designs DB [device=best] [designs=bench/weighed_designs.json]\n";
    return knobwise::cli::kBadRequest;
  }
  try {
    return knobwise::measure(argument(1, ""), argument(2, "best"), argument(3, "bench/weighed_designs.json"));
  } catch (const knobwise::UserError& error) {
    std::cerr << "knobwise_weighed_designs: " << knobwise::cli::format_error(error);
    return knobwise::cli::kBadRequest;
  } catch (const std::exception& error) {
    std::cerr << "knobwise_weighed_designs: " << error.what() << "\n";
    return knobwise::cli::kJobFailed;
  }
}
