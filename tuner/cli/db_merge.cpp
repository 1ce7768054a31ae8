#include <fmt/format.h>

#include <iostream>
#include <limits>

#include "db/whole_database.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/db.h"

namespace knobwise::cli {

int db_merge(const std::vector<std::string>& arguments) {
  const auto variables =
      parse(arguments,
            {"db merge OUT IN...",
             "Takes over every session, trial, baseline and machine code of the databases IN into OUT,\n"
             "which is made if it is not there. Nothing is added twice, and the order does not matter.\n"
             "Trials keep their session with its host and command line. Each IN is taken over whole or\n"
             "not at all, and never changed; an OUT that was not there is made whole or not at all.",
             "  knobwise db merge all.db node1.db node2.db\n"},
            Options(), "files", true, std::numeric_limits<std::size_t>::max());
  if (!variables) return kSuccess;
  const auto files = (*variables)["files"].as<std::vector<std::string>>();
  if (files.size() < 2) throw UserError("give a database to merge after the one to merge into");
  // Before anything is taken over.
  for (std::size_t i = 1; i < files.size(); ++i) Store::open(files[i], Store::Mode::read_only);
  change_or_make(files[0], [&](Store& out) {
    for (std::size_t i = 1; i < files.size(); ++i) {
      const MergeResult added = out.merge(files[i]);
      std::cout << fmt::format(
          "{}: {} sessions, {} trials, {} baselines added, {} trials timed again later\n", files[i],
          added.sessions, added.trials, added.baselines, added.renewed);
    }
    const StoreCounts counts = out.counts();
    std::cout << fmt::format("{}: {} sessions, {} trials\n", files[0], counts.sessions, counts.trials);
  });
  return kSuccess;
}

}  // namespace knobwise::cli
