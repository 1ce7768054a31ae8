// The knobwise executable: picks the subcommand and turns errors into one line and an exit status.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"
#include "tuner/cli/place.h"
#include "tuner/evaluation/worker_process.h"
#include "tuner/evaluation/workers.h"

namespace {

using namespace knobwise;

struct Subcommand {
  const char* name;
  int (*run)(const std::vector<std::string>&);
  const char* summary;
};

constexpr Subcommand kSubcommands[] = {
    {"devices", cli::devices, "list the devices that can be tuned for"},
    {"tune", cli::tune, "search the fastest configuration for one problem"},
    {"sweep", cli::sweep, "tune every problem of a file"},
    {"best", cli::best, "look up and print the best known configuration"},
    {"run", cli::run, "look up, run on fresh inputs, verify and time"},
    {"report", cli::report, "write the HTML report of a database"},
    {"simulate", cli::simulate, "compare search strategies on a recorded space"},
    {"cache", cli::cache, "say what the cache of compiled code holds, or empty it"},
    {"db", cli::db, "look into databases, merge, export, prune, check and salvage them"},
};

void print_usage(std::ostream& out) {
  out << "knobwise finds, stores and serves the fastest way to run a convolution.\n\n"
         "Usage: knobwise COMMAND [ARGUMENTS]\n\nCommands:\n";
  for (const Subcommand& command : kSubcommands)
    out << fmt::format("  {:<9}{}\n", command.name, command.summary);
  out << "\n'knobwise COMMAND --help' explains each with examples. A problem is one quoted line:\n"
         "  'conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu'\n"
         "Exit status: 0 done, 1 the job failed, 2 the request was wrong.\n";
}

int run_worker(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3) throw UserError("'knobwise worker' is for the program itself");
  become_worker(static_cast<pid_t>(std::atol(arguments[2].c_str())));
  return arguments[1] == "compile" ? run_compile_worker() : run_measure_worker();
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_usage(std::cerr);
    return cli::kBadRequest;
  }
  if (arguments[0] == "help" && arguments.size() == 2) return dispatch({arguments[1], "--help"});
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_usage(std::cout);
    return cli::kSuccess;
  }
  if (arguments[0] == "--version") {
    std::cout << "knobwise " << KNOBWISE_VERSION << "\n";
    return cli::kSuccess;
  }
  if (arguments[0] == "worker") return run_worker(arguments);
  for (const Subcommand& command : kSubcommands) {
    if (arguments[0] == command.name) return command.run({arguments.begin() + 1, arguments.end()});
  }
  throw UserError(fmt::format("there is no command '{}'; see 'knobwise --help'", arguments[0]));
}

}  // namespace

int main(int argc, char** argv) {
  // A file that may not grow further is an error to report, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = dispatch({argv + 1, argv + argc});
    if (!std::cout.flush()) throw std::runtime_error("the output cannot be written: check the free space");
    return status;
  } catch (const UserError& error) {
    std::cerr << "knobwise: " << cli::format_error(error);
    return cli::kBadRequest;
  } catch (const std::exception& error) {
    std::cerr << "knobwise: " << error.what() << "\n";
    return cli::kJobFailed;
  }
}
