// What every subcommand shares: options, help, problems on the command line, exit statuses.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "db/layered_store.h"
#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/problem.h"
#include "kernels/user/user_kernel.h"
#include "reports/ceilings.h"

namespace knobwise::cli {

enum ExitStatus { kSuccess = 0, kJobFailed = 1, kBadRequest = 2 };

/// The pieces of a subcommand's help: the usage line, what it does (filled into lines when it is shown),
/// examples.
struct Help {
  std::string usage;
  std::string description;
  std::string examples;
};

using Options = boost::program_options::options_description;
using Variables = boost::program_options::variables_map;

/// Parses the arguments that follow the subcommand. Prints the help and returns nothing when --help is among
/// them (or when `required_positional` is missing: then throws UserError that shows the usage). Throws
/// UserError for bad options.
std::optional<Variables> parse(const std::vector<std::string>& arguments, const Help& help, Options options,
                               const char* positional = nullptr, bool positional_required = true,
                               std::size_t most_positional = 1);

// Groups of options that several subcommands take.
void add_database(Options& options);
void add_device(Options& options);
/// --device for commands that take several at once.
void add_devices(Options& options, const char* default_devices);
void add_accuracy(Options& options);
void add_json(Options& options);

/// --db in order, else KNOBWISE_DB (separated by colons), else knobwise.db in the current folder.
std::vector<std::filesystem::path> database_paths(const Variables& variables);
/// Opens existing databases for reading. One that cannot be used is said on standard error and left out; if
/// none can, throws UserError, which says how to make one when the file is missing.
LayeredStore open_databases(const std::vector<std::filesystem::path>& paths);
/// A device by the name that open_device() takes ("cpu", "cuda:0"), and its description.
struct ChosenDevice {
  std::string name;
  DeviceInfo info;
};
/// The one device that --device names, of the backend of the user's kernel if there is one. Throws UserError
/// that lists those there are.
ChosenDevice chosen_device(const Variables& variables, const UserKernel* kernel = nullptr);
/// Every device that --device names, likewise, each once, in order.
std::vector<ChosenDevice> chosen_devices(const Variables& variables, const UserKernel* kernel = nullptr);
AccuracyRequirement accuracy(const Variables& variables);
/// --seed. Throws UserError for a negative one.
std::uint64_t seed(const Variables& variables);

/// Writes one JSON document to standard output; bytes that are no UTF-8, as paths may hold, are replaced.
void print_json(const nlohmann::ordered_json& document);

/// --kernel and --problem-size.
void add_kernel(Options& options);
/// The user's kernel of --kernel, registered with its backend for the rest of the program; null without the
/// option. Throws UserError for a file that cannot be used, or when a problem is given as well.
const UserKernel* chosen_kernel(const Variables& variables);
/// The problem of the kernel, else the one on the command line. Throws UserError when there is none.
Problem chosen_problem(const Variables& variables, const UserKernel* kernel);

// Numbers for people.
std::string format_time(double microseconds);                ///< "812 us", "15.9 ms", "2.31 s"
std::string format_rate(double flops, double microseconds);  ///< "812 GFLOP/s", "31.2 TFLOP/s"
/// "812 us, 31.2 TFLOP/s"; the time alone for a user's kernel, whose operations are not known.
std::string format_speed(const Problem& problem, double microseconds);
std::string format_bytes(std::int64_t bytes);               ///< "268.4 MB"
std::string format_configuration(const std::string& json);  ///< tile_w=16 precision=fp32

/// Largest max_abs and rel_fro over the distributions: "max 2.1e-06, rel 3.4e-07".
std::string format_errors(const std::vector<ErrorRecord>& errors);

/// How close a time comes to its floor: "43% of what fp32 allows (1.2 ms, measured)".
std::string format_floor(const FloorTime& floor, double microseconds);
nlohmann::json to_json(const FloorTime& floor);

// The subcommands; each returns an exit status and throws UserError for a wrong request.
int devices(const std::vector<std::string>& arguments);
int tune(const std::vector<std::string>& arguments);
int sweep(const std::vector<std::string>& arguments);
int best(const std::vector<std::string>& arguments);
int run(const std::vector<std::string>& arguments);
int report(const std::vector<std::string>& arguments);
int simulate(const std::vector<std::string>& arguments);
int cache(const std::vector<std::string>& arguments);
int db(const std::vector<std::string>& arguments);

}  // namespace knobwise::cli
