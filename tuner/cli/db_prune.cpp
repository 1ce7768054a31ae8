#include <fmt/format.h>

#include <iostream>

#include "kernels/device.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/db.h"
#include "tuner/cli/staleness.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

PruneOptions prune_options(const Variables& variables, const Store& store) {
  PruneOptions options;
  if (variables.count("stale")) options.groups = stale_trials(store, list_devices(nullptr)).all();
  options.failed = variables.count("failed") > 0;
  options.code = variables.count("code") > 0;
  if (variables.count("keep-best")) {
    options.keep_best = variables["keep-best"].as<std::int64_t>();
    if (*options.keep_best < 1) throw UserError("--keep-best: give a number of at least 1");
  }
  if (!variables.count("stale") && !options.failed && !options.code && !options.keep_best)
    throw UserError(
        "say what to remove: --stale, --failed, --keep-best N, --code; see 'knobwise db prune --help'");
  return options;
}

bool confirmed(const std::string& question) {
  std::cout << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int db_prune(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  options.add_options()                                                                                 //
      ("stale", "trials of other kernel sources, or of a device of this machine under other software")  //
      ("failed", "trials that failed")                                                                  //
      ("keep-best", po::value<std::int64_t>()->value_name("N"),
       "all but the N fastest of each precision mode and the N fastest within 1e-4, for each problem, "
       "device, "
       "environment and kernel version")   //
      ("code", "all stored machine code")  //
      ("yes", "do not ask");
  const auto variables =
      parse(arguments,
            {"db prune --stale|--failed|--keep-best N|--code [OPTIONS]",
             "Removes trials, with their errors, machine code and emptied sessions, from one database.\n"
             "Says how many and asks first. One transaction: all of it is done, or nothing.",
             "  knobwise db prune --stale --failed --db tuned.db\n"
             "  knobwise db prune --keep-best 10 --yes --db tuned.db\n"},
            options);
  if (!variables) return kSuccess;
  const std::filesystem::path path = the_database(*variables);
  Store store = Store::open(path, Store::Mode::read_write);
  const PruneOptions choice = prune_options(*variables, store);
  const PruneResult preview = store.prune_preview(choice);
  if (preview.trials == 0 && preview.codes == 0) {
    std::cout << fmt::format("{}: there is nothing to remove\n", path.string());
    return kSuccess;
  }
  const std::string question =
      fmt::format("Remove {} of {} trials, {} sessions and the machine code of {} trials from {}?",
                  preview.trials, store.counts().trials, preview.sessions, preview.codes, path.string());
  if (!variables->count("yes") && !confirmed(question)) {
    std::cout << "nothing was removed\n";
    return kJobFailed;
  }
  const PruneResult removed = store.prune(choice);
  std::cout << fmt::format("{}: removed {} trials, {} sessions and the machine code of {} trials\n",
                           path.string(), removed.trials, removed.sessions, removed.codes);
  return kSuccess;
}

}  // namespace knobwise::cli
