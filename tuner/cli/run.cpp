// `run`: what an application gets from the runtime library, checked and timed.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "include/knobwise/dispatcher.h"
#include "kernels/device.h"
#include "kernels/operands.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

// A plan seen as an executable, so that a device can time it as it times trials.
class PlanExecutable : public Executable {
 public:
  explicit PlanExecutable(Plan& plan) : plan_(plan) {}
  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override { return 0; }
  void prepare(const Buffers&, Stream) override {}
  void run(const Buffers& buffers, Stream stream) override {
    plan_.run({buffers.input, plan_.input_bytes()}, {buffers.output, plan_.output_bytes()}, stream);
  }

 private:
  Plan& plan_;
};

// The problem's tensors on a device, filled from a seed.
struct Tensors {
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<ConstBuffer> parameters;
  Buffers buffers;
};

Tensors make_tensors(Device& device, const Problem& problem, std::uint64_t seed) {
  Tensors tensors;
  const auto add = [&](std::int64_t elements, std::string_view purpose) {
    tensors.memory.push_back(
        device.allocate(static_cast<std::size_t>(elements) * size_of(problem.dtype), purpose));
    return tensors.memory.back()->data();
  };
  const std::int64_t inputs = problem.input_extents().elements();
  tensors.buffers.input = add(inputs, "input");
  device.fill_operand(tensors.buffers.input, problem.dtype, inputs,
                      operand_fill(problem, Distribution::uniform, seed, -1));
  int index = 0;
  for (const ParameterSpec& parameter : problem.parameters()) {
    void* data = add(parameter.elements(), parameter.name);
    device.fill_operand(data, problem.dtype, parameter.elements(),
                        operand_fill(problem, Distribution::uniform, seed, index++));
    tensors.buffers.parameters.push_back(data);
    tensors.parameters.emplace_back(data,
                                    static_cast<std::size_t>(parameter.elements()) * size_of(problem.dtype));
  }
  const std::int64_t outputs = problem.output_extents().elements();
  tensors.buffers.output = add(outputs, "output");
  device.fill_bytes(tensors.buffers.output, 0xFF, static_cast<std::size_t>(outputs) * size_of(problem.dtype));
  return tensors;
}

struct Outcome {
  ErrorMetrics error;
  Timing timing;
  bool accepted = false;
  std::uint64_t seed = 0;
};

Outcome run_plan(Plan& plan, const std::string& device_name, const AccuracyRequirement& requirement,
                 std::uint64_t seed) {
  const std::unique_ptr<Device> device = open_device(device_name);
  const Tensors tensors = make_tensors(*device, plan.problem(), seed);
  PlanExecutable executable(plan);
  plan.prepare(tensors.parameters);
  executable.run(tensors.buffers, nullptr);
  device->synchronize();
  Outcome outcome;
  outcome.seed = seed;
  const KernelFamily* family = find_family(device->info().backend, plan.description().family);
  outcome.error = device->verify(plan.problem(), tensors.buffers,
                                 family->tile(plan.problem(), plan.description().configuration), seed);
  outcome.accepted = requirement.accepts(outcome.error);
  outcome.timing = device->time(executable, tensors.buffers, TimingOptions{});
  return outcome;
}

void print(const Plan& plan, const Outcome& outcome, const std::string& requirement) {
  const PlanDescription& description = plan.description();
  const double time = outcome.timing.summary_us;
  std::cout << description.problem << "\n"
            << fmt::format("  kernel    {} {}\n", description.family,
                           format_configuration(description.configuration.to_json()))
            << fmt::format("  from      {}{}{}\n", to_string(description.provenance),
                           description.database.empty() ? "" : ", ", description.database)
            << fmt::format("  time      {}, {}{}\n", format_time(time),
                           format_rate(static_cast<double>(plan.problem().flops()), time),
                           description.predicted_us
                               ? fmt::format(" (stored: {})", format_time(*description.predicted_us))
                               : "")
            << fmt::format("  error     max {:.1e}, rel {:.1e} over {} outputs: {} '{}'\n",
                           outcome.error.max_abs, outcome.error.rel_fro, outcome.error.checked,
                           outcome.accepted ? "meets" : "DOES NOT MEET", requirement);
  for (const std::string& note : description.notes) std::cout << "  note      " << note << "\n";
}

nlohmann::json to_json(const Plan& plan, const Outcome& outcome) {
  nlohmann::json document = nlohmann::json::parse(plan.description().to_json());
  document["run"] = {
      {"time_us", outcome.timing.summary_us},
      {"gflops", static_cast<double>(plan.problem().flops()) / outcome.timing.summary_us * 1e-3},
      {"max_abs", outcome.error.max_abs},
      {"rel_fro", outcome.error.rel_fro},
      {"frac_outside", outcome.error.frac_outside},
      {"checked", outcome.error.checked},
      {"accepted", outcome.accepted},
      {"seed", outcome.seed}};
  return document;
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_device(options);
  add_accuracy(options);
  options.add_options()                                                                              //
      ("seed", po::value<std::uint64_t>()->value_name("N"), "of the inputs [a new one every time]")  //
      ("allow", po::value<std::string>()->default_value("all")->value_name("STEPS"),
       "steps of the lookup that may answer: exact,nearest,family_default,vendor,reference");
  add_json(options);
  const auto variables =
      parse(arguments,
            {"run PROBLEM [OPTIONS]",
             "Looks the problem up through the runtime library, runs the kernel on fresh inputs,\n"
             "checks the output against float64 and times it.",
             "  knobwise run 'conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu' --allow exact\n"},
            options, "problem");
  if (!variables) return kSuccess;
  const Problem problem = Problem::parse((*variables)["problem"].as<std::vector<std::string>>().front());
  Requirement requirement;
  requirement.accuracy = accuracy(*variables);
  requirement.allow = ProvenanceSet::parse((*variables)["allow"].as<std::string>());
  const std::string device = chosen_device(*variables).first;
  DispatcherOptions dispatching;
  dispatching.databases = database_paths(*variables);
  dispatching.device = device;
  dispatching.on_new_plan = [](const PlanDescription&) {};  // it is printed below
  Dispatcher dispatcher(dispatching);
  for (const std::string& note : dispatcher.notes()) std::cerr << "note: " << note << "\n";
  Plan plan = dispatcher.plan(problem, requirement);
  const std::uint64_t seed =
      variables->count("seed") ? (*variables)["seed"].as<std::uint64_t>() : std::random_device{}();
  const Outcome outcome = run_plan(plan, device, *requirement.accuracy, seed);
  if (variables->count("json")) {
    std::cout << to_json(plan, outcome).dump(2) << "\n";
  } else {
    print(plan, outcome, requirement.accuracy->to_string());
  }
  return outcome.accepted ? kSuccess : kJobFailed;
}

}  // namespace knobwise::cli
