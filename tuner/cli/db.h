// The actions of `knobwise db`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tuner/cli/command.h"

namespace knobwise::cli {

// Each returns an exit status and throws UserError for a wrong request.
int db_info(const std::vector<std::string>& arguments);
int db_merge(const std::vector<std::string>& arguments);
int db_export(const std::vector<std::string>& arguments);
int db_import(const std::vector<std::string>& arguments);
int db_prune(const std::vector<std::string>& arguments);
int db_check(const std::vector<std::string>& arguments);
int db_salvage(const std::vector<std::string>& arguments);

/// The one existing database of an action that takes one; UserError for several or none.
std::filesystem::path the_database(const Variables& variables);

}  // namespace knobwise::cli
