#include "db/salvage.h"

#include <fmt/format.h>

#include <iostream>

#include "search_spaces/user_error.h"
#include "tuner/cli/db.h"

namespace knobwise::cli {

int db_salvage(const std::vector<std::string>& arguments) {
  const auto variables =
      parse(arguments,
            {"db salvage DAMAGED OUT",
             "Writes what can be read of a damaged database to the new file OUT. DAMAGED is not changed.",
             "  knobwise db salvage tuned.db salvaged.db\n"},
            Options(), "files", true, 2);
  if (!variables) return kSuccess;
  const auto files = (*variables)["files"].as<std::vector<std::string>>();
  if (files.size() != 2)
    throw UserError("give the damaged file and the new one; see 'knobwise db salvage --help'");
  const SalvageResult result = salvage(files[0], files[1]);
  std::cout << fmt::format("{}: {} problems, {} sessions, {} trials, {} baselines\n", files[1],
                           result.problems, result.sessions, result.trials, result.baselines);
  if (result.schema_rebuilt)
    std::cout << "the file's list of tables was of no use; rows were told by what they look like\n";
  for (const std::string& table : result.damaged)
    std::cout << fmt::format("parts of {} could not be read\n", table);
  if (result.refused > 0) std::cout << fmt::format("{} rows were damaged and left out\n", result.refused);
  if (result.orphans > 0)
    std::cout << fmt::format("{} rows were left out because what they refer to is lost\n", result.orphans);
  return kSuccess;
}

}  // namespace knobwise::cli
