#include "reports/report.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <limits>
#include <thread>

#include "reports/live_server.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"
#include "tuner/cli/interrupt.h"

namespace knobwise::cli {
namespace {

LivePlace live_place(const Variables& variables) {
  LivePlace place;
  if (variables.count("bind")) place.address = variables["bind"].as<std::string>();
  if (variables.count("port")) {
    const std::int64_t port = variables["port"].as<std::int64_t>();
    if (port < 0 || port > std::numeric_limits<std::uint16_t>::max())
      throw UserError("--port: give a number from 0 (any that is free) to 65535");
    place.port = static_cast<std::uint16_t>(port);
  }
  return place;
}

void check_live_options(const Variables& variables, bool live) {
  for (const char* option : {"port", "bind"}) {
    if (!live && variables.count(option)) throw UserError(fmt::format("--{} belongs to --live", option));
  }
  if (live && !variables["output"].defaulted())
    throw UserError("--live serves the report and writes no file: leave --output out");
}

int serve(const std::vector<std::filesystem::path>& databases, const ReportOptions& options,
          const LivePlace& place) {
  const InterruptGuard guard;
  const LiveServer server(databases, options, place);
  if (server.open_to_others())
    std::cerr
        << "note: whoever reaches this machine can read the report; without --bind only this machine can\n";
  std::cout << fmt::format("serving {} (Ctrl-C ends it)\n", server.url()) << std::flush;
  while (!*InterruptGuard::flag()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return kSuccess;
}

}  // namespace

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
       "the page to write")                                                                              //
      ("live", "instead of writing it, serve the page on 127.0.0.1 and follow what is tuned meanwhile")  //
      ("port", po::value<std::int64_t>()->value_name("N"), "of --live [any that is free]")               //
      ("bind", po::value<std::string>()->value_name("ADDRESS"),
       "with --live: let other machines read the report, by serving on this address of an interface "
       "(0.0.0.0: all)");
  const auto variables = parse(arguments,
                               {"report [OPTIONS]",
                                "Writes what a database holds as one HTML file that opens without a network, "
                                "or serves it while a search runs.",
                                "  knobwise report --db tuned.db -o report.html\n"
                                "  knobwise report --db tuned.db --live --port 8080\n"},
                               options);
  if (!variables) return kSuccess;
  const bool live = variables->count("live") > 0;
  check_live_options(*variables, live);
  const auto paths = database_paths(*variables);
  ReportOptions report_options;
  if (variables->count("problem")) {
    report_options.problem = Problem::parse((*variables)["problem"].as<std::string>()).to_string();
  }
  if (variables->count("device")) report_options.device = (*variables)["device"].as<std::string>();
  if (variables->count("since")) report_options.since = (*variables)["since"].as<std::string>();
  if (live) {
    open_databases(paths);  // says what is wrong with a file
    return serve(paths, report_options, live_place(*variables));
  }
  const std::filesystem::path output = (*variables)["output"].as<std::string>();
  for (const std::string& reason : write_report(paths, report_options, output))
    std::cerr << "note: " << reason << "; the other databases serve\n";
  std::cout << "wrote " << output.string() << "\n";
  return kSuccess;
}

}  // namespace knobwise::cli
