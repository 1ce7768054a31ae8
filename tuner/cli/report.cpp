#include "reports/report.h"

#include <iostream>

#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"

namespace knobwise::cli {

int report(const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  Options options;
  add_database(options);
  options.add_options()                                                                                    //
      ("problem", po::value<std::string>()->value_name("LINE"), "only this problem")                       //
      ("device", po::value<std::string>()->value_name("TEXT"), "only devices whose name holds this text")  //
      ("since", po::value<std::string>()->value_name("DATE"),
       "only trials from this UTC date on (2026-01-31)")  //
      ("output,o", po::value<std::string>()->default_value("report.html")->value_name("FILE"),
       "the page to write");
  const auto variables = parse(
      arguments,
      {"report [OPTIONS]", "Writes what a database holds as one HTML file that opens without a network.",
       "  knobwise report --db tuned.db -o report.html\n"},
      options);
  if (!variables) return kSuccess;
  const auto paths = database_paths(*variables);
  open_databases(paths);  // says what is wrong with a file before anything is written
  ReportOptions report_options;
  if (variables->count("problem")) {
    report_options.problem = Problem::parse((*variables)["problem"].as<std::string>()).to_string();
  }
  if (variables->count("device")) report_options.device = (*variables)["device"].as<std::string>();
  if (variables->count("since")) report_options.since = (*variables)["since"].as<std::string>();
  const std::filesystem::path output = (*variables)["output"].as<std::string>();
  write_report(paths, report_options, output);
  std::cout << "wrote " << output.string() << "\n";
  return kSuccess;
}

}  // namespace knobwise::cli
