// `db`: picks the action.
#include "tuner/cli/db.h"

#include <fmt/format.h>

#include <iostream>

#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"

namespace knobwise::cli {
namespace {

struct Action {
  const char* name;
  int (*run)(const std::vector<std::string>&);
  const char* summary;
};

constexpr Action kActions[] = {
    {"info", db_info, "say what each database holds and what of it is stale"},
    {"merge", db_merge, "take over everything of other databases"},
    {"export", db_export, "write T4 JSON, CSV or SQL text"},
    {"import", db_import, "read what export wrote"},
    {"prune", db_prune, "remove stale, failed or slow trials"},
    {"check", db_check, "look for damage and impossible configurations"},
    {"salvage", db_salvage, "get out of a damaged file what can be read"},
};

void print_usage(std::ostream& out) {
  out << "Usage: knobwise db ACTION [ARGUMENTS]\n\nActions:\n";
  for (const Action& action : kActions) out << fmt::format("  {:<9}{}\n", action.name, action.summary);
  out << "\n'knobwise db ACTION --help' explains each. docs/schema.md describes the tables.\n"
         "\nExamples:\n"
         "  knobwise db info --db mine.db --db site.db\n"
         "  knobwise db merge all.db node1.db node2.db\n"
         "  knobwise db prune --stale --keep-best 10 --db all.db\n";
}

}  // namespace

int db(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_usage(std::cerr);
    return kBadRequest;
  }
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    print_usage(std::cout);
    return kSuccess;
  }
  for (const Action& action : kActions) {
    if (arguments[0] == action.name) return action.run({arguments.begin() + 1, arguments.end()});
  }
  throw UserError(fmt::format("db: there is no action '{}'; see 'knobwise db --help'", arguments[0]));
}

std::filesystem::path the_database(const Variables& variables) {
  const auto paths = database_paths(variables);
  if (paths.size() != 1) throw UserError("give one database with --db");
  if (!std::filesystem::exists(paths.front())) {
    throw UserError(fmt::format("{}: there is no such database; 'knobwise tune PROBLEM --db {}' makes one",
                                paths.front().string(), paths.front().string()));
  }
  return paths.front();
}

}  // namespace knobwise::cli
