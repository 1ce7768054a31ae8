// `db export` and `db import`.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <limits>

#include "db/exchange.h"
#include "db/whole_file.h"
#include "kernels/problem.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/db.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

void add_format(Options& options) {
  options.add_options()("format", po::value<std::string>()->value_name("WORD"),
                        "t4, csv or sql [by the file's name: .json, .csv, .sql]");
}

ExchangeFormat format_of(const Variables& variables, const std::string& file) {
  if (variables.count("format")) return parse_exchange_format(variables["format"].as<std::string>());
  if (const auto format = exchange_format_of(file)) return *format;
  throw UserError(fmt::format("{}: the name does not tell the format; give --format t4, csv or sql", file));
}

}  // namespace

int db_export(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_format(options);
  options.add_options()("problem", po::value<std::string>()->value_name("LINE"),
                        "only trials of this problem (t4, csv)");
  const auto variables =
      parse(arguments,
            {"db export FILE [OPTIONS]",
             "Writes a database as text. SQL holds everything; T4 JSON (the autotuning community's\n"
             "results format) and CSV hold the trials with all they refer to, and what they leave out is\n"
             "said. docs/exchange.md describes the fields. 'knobwise simulate' reads the T4 of one problem.",
             "  knobwise db export tuned.json --db tuned.db\n"
             "  knobwise db export trials.csv --problem 'conv1d n=1 c=8 w=64 k=8 s=3' --db tuned.db\n"},
            options, "file");
  if (!variables) return kSuccess;
  const std::string file = (*variables)["file"].as<std::vector<std::string>>().front();
  ExportOptions choice{.format = format_of(*variables, file)};
  if (variables->count("problem"))
    choice.problem = Problem::parse((*variables)["problem"].as<std::string>()).to_string();
  const Store store = Store::open(the_database(*variables), Store::Mode::read_only);
  ExportResult result;
  write_whole_file(file, [&](std::ostream& out) { result = export_database(store, choice, out); });
  std::cout << fmt::format("{}: {} trials\n", file, result.trials);
  for (const std::string& words : result.left_out)
    std::cerr << fmt::format("note: left out, the format has no place for it: {}\n", words);
  return kSuccess;
}

int db_import(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_format(options);
  const auto variables =
      parse(arguments,
            {"db import FILE... [OPTIONS]",
             "Merges what 'knobwise db export' wrote into a database, which is made if it is not there.\n"
             "Each file is taken over whole or not at all; importing twice changes nothing.",
             "  knobwise db import tuned.json --db new.db\n"},
            options, "files", true, std::numeric_limits<std::size_t>::max());
  if (!variables) return kSuccess;
  const auto files = (*variables)["files"].as<std::vector<std::string>>();
  const auto paths = database_paths(*variables);
  if (paths.size() != 1) throw UserError("give one database with --db");
  std::vector<ExchangeFormat> formats;
  for (const std::string& file : files) {
    formats.push_back(format_of(*variables, file));
    if (!std::ifstream(file) || std::filesystem::is_directory(file))
      throw UserError(fmt::format("{}: cannot be read; check the name", file));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::ifstream in(files[i], std::ios::binary);
    const MergeResult added = import_database(paths.front(), formats[i], in, files[i]);
    std::cout << fmt::format("{}: {} sessions, {} trials added\n", files[i], added.sessions, added.trials);
  }
  return kSuccess;
}

}  // namespace knobwise::cli
