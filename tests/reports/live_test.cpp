// The report that follows a running session: over HTTP, as browsers and attackers see it.
#include "reports/live_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "search_spaces/user_error.h"
#include "tests/reports/databases.h"
#include "tests/reports/http_client.h"
#include "tests/reports/unpack.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using report_tests::count_trials;
using report_tests::exchange;
using report_tests::Fields;
using report_tests::get;
using report_tests::request;
using report_tests::Response;
using report_tests::RunningSearch;
using report_tests::http::field;
using report_tests::http::verb;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The folder is removed with its contents at the end of the test.
class LiveReportTest : public testing::Test {
 protected:
  LiveReportTest() { fs::create_directories(folder_); }
  ~LiveReportTest() override { fs::remove_all(folder_); }

  fs::path at(const std::string& name) const { return folder_ / name; }

  static std::string header(const Response& response, field name) { return std::string(response[name]); }

  static Response data_newer_than(const LiveServer& server, const std::string& tag) {
    return request(server.port(), verb::get, "/data",
                   {{field::host, "localhost"}, {field::if_none_match, tag}});
  }

  // Asks again until there is an answer of this status; the last answer.
  static Response wait_for(const LiveServer& server, const std::string& tag, unsigned status) {
    Response response;
    for (int attempt = 0; attempt < 600; ++attempt) {
      response = data_newer_than(server, tag);
      if (response.result_int() == status) break;
      std::this_thread::sleep_for(100ms);
    }
    EXPECT_EQ(response.result_int(), status);
    return response;
  }

  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  static std::string refusal(const std::vector<fs::path>& databases, const LivePlace& place) {
    try {
      const LiveServer server(databases, {}, place);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("knobwise_live_test_" + std::to_string(getpid()));
};

TEST_F(LiveReportTest, ServesThePageAndItsData) {
  report_tests::make_sweep(at("a.db"), 40);
  const LiveServer server({at("a.db")}, {});
  EXPECT_EQ(server.url(), "http://127.0.0.1:" + std::to_string(server.port()) + "/");
  EXPECT_FALSE(server.open_to_others());

  const Response page = get(server.port(), "/");
  EXPECT_EQ(page.result_int(), 200u);
  EXPECT_THAT(header(page, field::content_type), StartsWith("text/html"));
  EXPECT_THAT(page.body(), HasSubstr("id=\"report-data\"></script>"));
  EXPECT_THAT(page.body(), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.body(), HasSubstr("connect-src 'self'"));
  EXPECT_EQ(std::string(page["X-Content-Type-Options"]), "nosniff");
  EXPECT_EQ(std::string(page["Cross-Origin-Resource-Policy"]), "same-origin");
  EXPECT_EQ(header(page, field::access_control_allow_origin), "");

  const Response data = get(server.port(), "/data");
  EXPECT_EQ(data.result_int(), 200u);
  EXPECT_EQ(header(data, field::content_encoding), "gzip");
  EXPECT_EQ(report_tests::gunzip_json(data.body())["groups"].size(), 6u);
}

TEST_F(LiveReportTest, NewTrialsAppear) {
  RunningSearch search(at("a.db"));
  search.add(3);
  const LiveServer server({at("a.db")}, {});
  const Response before = get(server.port(), "/data");
  EXPECT_EQ(count_trials(report_tests::gunzip_json(before.body())), 3u);
  std::string tag = header(before, field::etag);
  EXPECT_EQ(data_newer_than(server, tag).result_int(), 304u);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(data_newer_than(server, tag).result_int(), 304u) << "nothing has changed";
  for (std::size_t trials = 4; trials < 7; ++trials) {
    search.add(1);
    const Response after = wait_for(server, tag, 200);
    EXPECT_EQ(count_trials(report_tests::gunzip_json(after.body())), trials);
    EXPECT_NE(header(after, field::etag), tag);
    tag = header(after, field::etag);
  }
}

TEST_F(LiveReportTest, TagsOfAnEarlierServerAreNotTakenForItsOwn) {
  report_tests::make_one_trial(at("a.db"));
  std::string tag;
  {
    const LiveServer first({at("a.db")}, {});
    tag = header(get(first.port(), "/data"), field::etag);
  }
  const LiveServer second({at("a.db")}, {});
  EXPECT_EQ(data_newer_than(second, tag).result_int(), 200u);
}

TEST_F(LiveReportTest, NoRequestReachesAFile) {
  report_tests::make_one_trial(at("a.db"));
  const LiveServer server({at("a.db")}, {});
  for (const std::string target :
       {"/a.db", "/../a.db", "/../../../../etc/passwd", "/data/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/data/", "/data?file=/etc/passwd", "/?/etc/passwd", "/./",
        "/index.html", "/data%00.db", "http://localhost/data", "file:///etc/passwd", "*", "/\\..\\a.db"}) {
    const Response response = get(server.port(), target);
    EXPECT_EQ(response.result_int(), 404u) << target;
    EXPECT_THAT(response.body(), Not(HasSubstr("root:"))) << target;
    EXPECT_THAT(response.body(), Not(HasSubstr("SQLite"))) << target;
  }
}

TEST_F(LiveReportTest, AnswersOnlyUnderTheNamesOfThisMachine) {
  report_tests::make_one_trial(at("a.db"));
  const LiveServer server({at("a.db")}, {});
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  for (const std::string& host :
       {std::string("localhost"), std::string("LocalHost:1"), std::string("127.0.0.1"),
        "127.0.0.1:" + std::to_string(server.port()), std::string("[::1]:80"), std::string(name)}) {
    EXPECT_EQ(get(server.port(), "/", host).result_int(), 200u) << host;
    EXPECT_EQ(get(server.port(), "/data", host).result_int(), 200u) << host;
  }
  for (const std::string host :
       {"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example",
        "evil.example#localhost", "evil.example@localhost", "", "[", "[]", ":", "127.1.evil"}) {
    for (const char* target : {"/", "/data"}) {
      const Response response = get(server.port(), target, host);
      EXPECT_EQ(response.result_int(), 403u) << host;
      EXPECT_THAT(response.body(), Not(HasSubstr("report-data"))) << host;
    }
  }
  EXPECT_EQ(request(server.port(), verb::get, "/data", {}).result_int(), 400u) << "no host";
  const Fields two = {{field::host, "localhost"}, {field::host, "evil.example"}};
  EXPECT_EQ(request(server.port(), verb::get, "/data", two).result_int(), 400u);
}

TEST_F(LiveReportTest, IsOnlyRead) {
  report_tests::make_one_trial(at("a.db"));
  const std::string content = read(at("a.db"));
  {
    const LiveServer server({at("a.db")}, {});
    for (const verb method :
         {verb::post, verb::put, verb::delete_, verb::options, verb::patch, verb::trace}) {
      const Response response = request(server.port(), method, "/data", {{field::host, "localhost"}});
      EXPECT_EQ(response.result_int(), 405u) << method;
      EXPECT_EQ(header(response, field::allow), "GET, HEAD");
    }
    const Response head = request(server.port(), verb::head, "/data", {{field::host, "localhost"}});
    EXPECT_EQ(head.result_int(), 200u);
    EXPECT_EQ(header(head, field::content_length), std::to_string(get(server.port(), "/data").body().size()));
    EXPECT_EQ(head.body(), "");
  }
  EXPECT_EQ(read(at("a.db")), content);
}

TEST_F(LiveReportTest, BrokenRequestsAndIdleConnectionsHurtNobody) {
  report_tests::make_one_trial(at("a.db"));
  const LiveServer server({at("a.db")}, {});
  EXPECT_THAT(exchange(server.port(), "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(exchange(server.port(), "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(1 << 20, 'x')),
              Not(HasSubstr("200 OK")));
  EXPECT_THAT(
      exchange(server.port(), "POST /data HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nx"),
      Not(HasSubstr("200 OK")));
  EXPECT_THAT(exchange(server.port(), std::string("\0\xff\x16\x03\x01", 5)), Not(HasSubstr("200 OK")));
  exchange(server.port(), "");
  boost::asio::io_context context;
  std::vector<boost::asio::ip::tcp::socket> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(report_tests::connect(context, server.port()));
  EXPECT_EQ(get(server.port(), "/data").result_int(), 200u);
}

TEST_F(LiveReportTest, ServesSeveralViewersWhileASessionWrites) {
  RunningSearch search(at("a.db"));
  search.add(5);
  const LiveServer server({at("a.db")}, {});
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> viewers;
    for (int i = 0; i < 6; ++i) {
      viewers.emplace_back([&] {
        std::string tag;
        for (int look = 0; look < 20; ++look) {
          const Response response = data_newer_than(server, tag);
          if (response.result_int() == 200) tag = header(response, field::etag);
          good += response.result_int() == 200 || response.result_int() == 304 ? 1 : 0;
          std::this_thread::sleep_for(20ms);
        }
      });
    }
    search.add(60);
  }
  EXPECT_EQ(good, 6 * 20);
}

TEST_F(LiveReportTest, ADatabaseThatGoesAwayIsSaidAndItsReturnIsSeen) {
  report_tests::make_one_trial(at("a.db"));
  const LiveServer server({at("a.db")}, {});
  const std::string tag = header(get(server.port(), "/data"), field::etag);
  for (const char* suffix : {"", "-wal", "-shm"})
    if (fs::exists(at("a.db").string() + suffix))
      fs::rename(at("a.db").string() + suffix, at("kept").string() + suffix);
  EXPECT_THAT(wait_for(server, tag, 503).body(), HasSubstr("a.db"));
  fs::rename(at("kept"), at("a.db"));
  EXPECT_EQ(count_trials(report_tests::gunzip_json(wait_for(server, tag, 200).body())), 1u);
}

TEST_F(LiveReportTest, RefusesPlacesItCannotServe) {
  report_tests::make_one_trial(at("a.db"));
  EXPECT_THAT(refusal({at("a.db")}, {.address = "example.com"}), HasSubstr("'example.com' is no IP address"));
  EXPECT_THAT(refusal({at("a.db")}, {.address = "192.0.2.1"}), HasSubstr("no interface of this machine"));
  const LiveServer server({at("a.db")}, {});
  EXPECT_THAT(refusal({at("a.db")}, {.port = server.port()}), HasSubstr("in use; give another --port"));
  EXPECT_THAT(refusal({at("missing.db")}, {}), HasSubstr("missing.db"));
}

TEST_F(LiveReportTest, OtherInterfacesAreReachedOnlyWhenAsked) {
  report_tests::make_one_trial(at("a.db"));
  const LiveServer all({at("a.db")}, {}, {.address = "0.0.0.0"});
  EXPECT_TRUE(all.open_to_others());
  EXPECT_THAT(all.url(), Not(HasSubstr("0.0.0.0")));
  EXPECT_EQ(get(all.port(), "/").result_int(), 200u);
  // Every address of 127.0.0.0/8 is this machine: by default only the first of them is served.
  const auto reaches = [](std::uint16_t port) {
    boost::asio::io_context context;
    boost::asio::ip::tcp::socket socket(context);
    boost::system::error_code error;
    socket.connect({boost::asio::ip::make_address("127.0.0.2"), port}, error);
    return !error;
  };
  EXPECT_TRUE(reaches(all.port()));
  const LiveServer local({at("a.db")}, {});
  EXPECT_FALSE(reaches(local.port()));
}

TEST_F(LiveReportTest, EndsWhileViewersAreConnected) {
  report_tests::make_one_trial(at("a.db"));
  boost::asio::io_context context;
  std::vector<boost::asio::ip::tcp::socket> viewers;
  const auto start = std::chrono::steady_clock::now();
  {
    const LiveServer server({at("a.db")}, {});
    for (int i = 0; i < 5; ++i) viewers.push_back(report_tests::connect(context, server.port()));
    get(server.port(), "/data");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

}  // namespace
}  // namespace knobwise
