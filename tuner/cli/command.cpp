#include "tuner/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "kernels/device.h"
#include "search_spaces/user_error.h"
#include "search_spaces/value.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

constexpr unsigned kHelpWidth = 80;

// "db merge" of "db merge OUT IN...".
std::string command_of(const Help& help) {
  std::istringstream words(help.usage);
  std::string command;
  for (std::string word; words >> word && std::islower(static_cast<unsigned char>(word.front()));)
    command += (command.empty() ? "" : " ") + word;
  return command;
}

// Words filled into lines of the help's width.
std::string fill(const std::string& text) {
  std::istringstream words(text);
  std::string filled;
  std::size_t column = 0;
  for (std::string word; words >> word;) {
    const bool fits = column + 1 + word.size() <= kHelpWidth;
    if (column > 0) filled += fits ? ' ' : '\n';
    column = (column > 0 && fits ? column + 1 : 0) + word.size();
    filled += word;
  }
  return filled;
}

void print_help(const Help& help, const Options& options) {
  std::cout << "Usage: knobwise " << help.usage << "\n\n" << fill(help.description) << "\n\n" << options;
  if (!help.examples.empty()) std::cout << "\nExamples:\n" << help.examples;
}

std::string device_name(const DeviceInfo& device) {
  return device.backend == Backend::cpu ? "cpu" : fmt::format("cuda:{}", device.ordinal);
}

// Whether one word of --device means a device; "best" is the first CUDA device if there is one.
bool names(const std::string& word, const DeviceInfo& device, const std::vector<DeviceInfo>& all) {
  if (word == "all" || word == device_name(device)) return true;
  // The CPU comes first where it is listed.
  if (word == "best") return &device == &all[all.size() > 1 && all[0].backend == Backend::cpu ? 1 : 0];
  if (device.backend != Backend::cuda) return false;
  return word == "cuda:all" || (word == "cuda" && device.ordinal == 0);
}

[[noreturn]] void refuse_device(const std::string& word, const std::vector<DeviceInfo>& all) {
  std::string known, why;
  std::vector<std::string> notes;
  if (word.starts_with("cuda")) list_devices(&notes);
  for (const std::string& note : notes) why += "; " + note;
  for (const DeviceInfo& device : all) known += (known.empty() ? "" : ", ") + device_name(device);
  throw UserError(fmt::format("--device: there is no device '{}' here; there is: {}{}", word, known, why));
}

}  // namespace

std::optional<Variables> parse(const std::vector<std::string>& arguments, const Help& help, Options options,
                               const char* positional, bool positional_required,
                               std::size_t most_positional) {
  Options visible("Options", kHelpWidth, kHelpWidth / 2);
  visible.add(options).add_options()("help,h", "show this help");
  Options all = visible;
  po::positional_options_description positions;
  if (positional) {
    all.add_options()(positional, po::value<std::vector<std::string>>());
    positions.add(positional, -1);
  }
  Variables variables;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positions).run(), variables);
    po::notify(variables);
  } catch (const po::error& error) {
    throw UserError(fmt::format("{}; see 'knobwise {} --help'", error.what(), command_of(help)));
  }
  if (variables.count("help")) {
    print_help(help, visible);
    return std::nullopt;
  }
  if (positional) {
    const std::size_t given =
        variables.count(positional) ? variables[positional].as<std::vector<std::string>>().size() : 0;
    if ((given == 0 && positional_required) || given > most_positional) {
      throw UserError(fmt::format(
          "{}; usage: knobwise {}",
          given == 0 ? "an argument is missing" : "too many arguments (quote a problem line)", help.usage));
    }
  }
  return variables;
}

void add_database(Options& options) {
  options.add_options()(
      "db", po::value<std::vector<std::string>>()->composing()->value_name("FILE"),
      "database; may be repeated: searched in order, only the first is written [$KNOBWISE_DB, else "
      "knobwise.db]");
}

void add_device(Options& options) {
  options.add_options()("device", po::value<std::string>()->default_value("best")->value_name("NAME"),
                        "cpu, cuda:N, or best: the first CUDA device if there is one");
}

void add_devices(Options& options, const char* default_devices) {
  options.add_options()(
      "device", po::value<std::string>()->default_value(default_devices)->value_name("NAMES"),
      "cpu, cuda:N, cuda:all, all, or best (the first CUDA device if there is one); several "
      "are separated by commas");
}

void add_accuracy(Options& options) {
  options.add_options()(
      "accuracy", po::value<std::string>()->default_value("allclose")->value_name("WORD"),
      "error accepted, as measured against float64: allclose (within 1e-4 + 1e-4 |ref|), tf32, half, "
      "bf16, any, or numbers: rel_fro=1e-3,max_abs=1e-2");
}

void add_json(Options& options) {
  options.add_options()("json", "print one JSON document, for machines");
}

std::vector<std::filesystem::path> database_paths(const Variables& variables) {
  std::vector<std::filesystem::path> paths;
  if (variables.count("db")) {
    for (const std::string& path : variables["db"].as<std::vector<std::string>>()) paths.emplace_back(path);
    return paths;
  }
  if (const char* listed = std::getenv("KNOBWISE_DB")) {
    std::stringstream stream(listed);
    for (std::string path; std::getline(stream, path, ':');) {
      if (!path.empty()) paths.emplace_back(path);
    }
  }
  if (paths.empty()) paths.emplace_back("knobwise.db");
  return paths;
}

LayeredStore open_databases(const std::vector<std::filesystem::path>& paths) {
  std::vector<Store> stores;
  std::vector<std::string> reasons;
  for (const auto& path : paths) {
    try {
      stores.push_back(Store::open(path, Store::Mode::read_only));
    } catch (const UserError& error) {
      reasons.push_back(error.what());
    }
  }
  if (stores.empty()) throw UserError(reasons.front());
  for (const std::string& reason : reasons)
    std::cerr << "note: " << reason << "; the other databases serve\n";
  return LayeredStore(std::move(stores));
}

ChosenDevice chosen_device(const Variables& variables, const UserKernel* kernel) {
  const std::vector<ChosenDevice> chosen = chosen_devices(variables, kernel);
  if (chosen.size() > 1) throw UserError("--device: give one device; only tune and sweep take several");
  return chosen.front();
}

std::vector<ChosenDevice> chosen_devices(const Variables& variables, const UserKernel* kernel) {
  std::vector<DeviceInfo> all = list_devices(nullptr);
  if (kernel) {
    std::erase_if(all, [&](const DeviceInfo& device) { return device.backend != kernel->backend(); });
    if (all.empty())
      throw UserError(
          fmt::format("{} is a CUDA kernel, and there is no CUDA device here; 'knobwise devices' "
                      "says why",
                      kernel->file().filename().string()));
  }
  std::vector<ChosenDevice> chosen;
  std::stringstream words(variables["device"].as<std::string>());
  for (std::string word; std::getline(words, word, ',');) {
    bool known = false;
    for (const DeviceInfo& device : all) {
      if (!names(word, device, all)) continue;
      known = true;
      const std::string name = device_name(device);
      const bool twice = std::any_of(chosen.begin(), chosen.end(),
                                     [&](const ChosenDevice& other) { return other.name == name; });
      if (!twice) chosen.push_back({name, device});
    }
    if (!known) refuse_device(word, all);
  }
  if (chosen.empty()) refuse_device("", all);
  return chosen;
}

void add_kernel(Options& options) {
  options.add_options()  //
      ("kernel", po::value<std::string>()->value_name("FILE"),
       "instead of a problem: a kernel of your own, described by a T1 file with a KernelSpecification "
       "(docs/user_kernels.md)")  //
      ("problem-size", po::value<std::string>()->value_name("XxYxZ"),
       "with --kernel: instead of the file's ProblemSize");
}

const UserKernel* chosen_kernel(const Variables& variables) {
  const bool sized = variables.count("problem-size") > 0;
  if (!variables.count("kernel")) {
    if (sized) throw UserError("--problem-size belongs to --kernel; a problem line holds its own sizes");
    return nullptr;
  }
  if (variables.count("problem")) throw UserError("give either a problem or --kernel");
  std::optional<ProblemSize> size;
  if (sized) size = parse_problem_size(variables["problem-size"].as<std::string>(), "--problem-size");
  static std::unique_ptr<UserKernel> kernel;
  const std::string& file = variables["kernel"].as<std::string>();
  if (file.empty()) throw UserError("--kernel: the path is empty; give a T1 file with a KernelSpecification");
  kernel = UserKernel::load(file, size);
  register_family(*kernel);
  return kernel.get();
}

Problem chosen_problem(const Variables& variables, const UserKernel* kernel) {
  if (kernel) return kernel->problem();
  if (!variables.count("problem"))
    throw UserError("an argument is missing: give a problem, or a kernel of your own with --kernel");
  return Problem::parse(variables["problem"].as<std::vector<std::string>>().front());
}

AccuracyRequirement accuracy(const Variables& variables) {
  return AccuracyRequirement::parse(variables["accuracy"].as<std::string>());
}

std::uint64_t seed(const Variables& variables) {
  const std::int64_t given = variables["seed"].as<std::int64_t>();
  if (given < 0) throw UserError("--seed: give a number of at least 0");
  return static_cast<std::uint64_t>(given);
}

void print_json(const nlohmann::ordered_json& document) {
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

std::string format_time(double microseconds) {
  if (microseconds < 9999.5) return fmt::format("{:.4g} us", microseconds);
  if (microseconds < 9999.5e3) return fmt::format("{:.4g} ms", microseconds * 1e-3);
  return fmt::format("{:.4g} s", microseconds * 1e-6);
}

std::string format_rate(double flops, double microseconds) {
  const double gflops = flops / microseconds * 1e-3;
  return gflops < 9999.5 ? fmt::format("{:.4g} GFLOP/s", gflops)
                         : fmt::format("{:.4g} TFLOP/s", gflops * 1e-3);
}

std::string format_speed(const Problem& problem, double microseconds) {
  if (!problem.user.empty()) return format_time(microseconds);
  return fmt::format("{}, {}", format_time(microseconds),
                     format_rate(static_cast<double>(problem.flops()), microseconds));
}

std::string format_bytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value < 1e6) return fmt::format("{:.4g} kB", value * 1e-3);
  return value < 1e9 ? fmt::format("{:.4g} MB", value * 1e-6) : fmt::format("{:.4g} GB", value * 1e-9);
}

std::string format_floor(const FloorTime& floor, double microseconds) {
  return fmt::format("{:.0f}% of what {} allows ({}, {})", 100 * floor.time_us / microseconds, floor.resource,
                     format_time(floor.time_us), floor.measured ? "measured" : "rated");
}

nlohmann::json to_json(const FloorTime& floor) {
  return {{"time_us", floor.time_us}, {"resource", floor.resource}, {"measured", floor.measured}};
}

std::string format_configuration(const std::string& json) {
  const Configuration configuration = Configuration::from_json(json);
  std::string text;
  for (const auto& [knob, value] : configuration.knobs()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", knob, to_string(value));
  }
  return text;
}

std::string format_errors(const std::vector<ErrorRecord>& errors) {
  double max_abs = 0, rel_fro = 0;
  for (const ErrorRecord& error : errors) {
    max_abs = std::max(max_abs, error.max_abs);
    rel_fro = std::max(rel_fro, error.rel_fro);
  }
  return fmt::format("max {:.1e}, rel {:.1e}", max_abs, rel_fro);
}

}  // namespace knobwise::cli
