// `knobwise report --live` as a person starts and ends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/reports/databases.h"
#include "tests/reports/http_client.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CliReport : public testing::Test {
 protected:
  CliReport() { report_tests::make_one_trial(database_); }

  CommandResult report(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"report", "--db", database_});
    return knobwise(arguments, folder_);
  }

  // A live report that runs, and its port.
  std::pair<pid_t, std::uint16_t> start(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {"report", "--db", database_, "--live"});
    std::filesystem::remove(folder_ / "out");  // of an earlier one
    const pid_t pid = start_knobwise(arguments, folder_);
    const std::string opening = "serving http://127.0.0.1:";
    for (int attempt = 0; attempt < 600; ++attempt) {
      const std::string out = read_file(folder_ / "out");
      if (out.starts_with(opening) && out.ends_with('\n'))
        return {pid, static_cast<std::uint16_t>(std::stoi(out.substr(opening.size())))};
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "it does not serve: " << read_file(folder_ / "err");
    return {pid, 0};
  }

  TemporaryFolder folder_;
  const std::string database_ = folder_ / "tuned.db";
};

TEST_F(CliReport, LiveServesUntilCtrlC) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto [pid, port] = start();
    EXPECT_EQ(report_tests::get(port, "/").result_int(), 200u);
    EXPECT_EQ(report_tests::get(port, "/data").result_int(), 200u);
    kill(pid, signal);
    const CommandResult result = finish(pid, folder_);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(CliReport, APortInUseIsOneLine) {
  const auto [pid, port] = start();
  TemporaryFolder other;
  const CommandResult second =
      knobwise({"report", "--db", database_, "--live", "--port", std::to_string(port)}, other);
  EXPECT_EQ(second.status, 2);
  EXPECT_THAT(second.err, HasSubstr("in use; give another --port"));
  EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1) << second.err;
  kill(pid, SIGINT);
  finish(pid, folder_);
}

TEST_F(CliReport, WrongPlacesAreOneLine) {
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--live", "--port", "65536"}, "--port: give a number from 0"},
           {{"--live", "--port", "-1"}, "--port: give a number from 0"},
           {{"--live", "--port", "eighty"}, "eighty"},
           {{"--live", "--bind", "everyone"}, "'everyone' is no IP address"},
           {{"--live", "--bind", "192.0.2.1"}, "no interface of this machine"},
           {{"--live", "-o", "x.html"}, "writes no file"},
           {{"--port", "8080"}, "--port belongs to --live"},
           {{"--bind", "0.0.0.0"}, "--bind belongs to --live"}}) {
    const CommandResult result = report(arguments);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_THAT(result.err, StartsWith("knobwise: "));
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(CliReport, ServingOtherMachinesIsSaid) {
  const pid_t pid = start_knobwise({"report", "--db", database_, "--live", "--bind", "0.0.0.0"}, folder_);
  for (int attempt = 0; attempt < 600 && read_file(folder_ / "out").empty(); ++attempt)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(pid, SIGINT);
  const CommandResult result = finish(pid, folder_);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("whoever reaches this machine can read the report"));
}

}  // namespace
}  // namespace knobwise::test
