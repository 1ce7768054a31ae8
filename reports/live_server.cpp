#include "reports/live_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "reports/live_report.h"
#include "reports/page.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr std::size_t kMostVisits = 200;
constexpr std::uint32_t kLongestHeader = 8192;
constexpr auto kPatience = std::chrono::seconds(30);

// "localhost:8080" -> "localhost", "[::1]:8080" -> "::1".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, std::min(host.find(']'), host.size()) - 1);
  return host.substr(0, host.find(':'));
}

// A name of another site may be made to lead to this machine; an address cannot be.
bool is_own_name(std::string_view host) {
  const std::string name(without_port(host));
  boost::system::error_code not_an_address;
  asio::ip::make_address(name, not_an_address);
  return !not_an_address || beast::iequals(name, "localhost") || beast::iequals(name, asio::ip::host_name());
}

Response answer(const Request& request, http::status status, std::string_view type, std::string body) {
  Response response(status, request.version());
  response.keep_alive(request.keep_alive());
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  response.set("Content-Security-Policy", "frame-ancestors 'none'");
  response.set("Referrer-Policy", "no-referrer");
  response.content_length(body.size());
  if (request.method() != http::verb::head) response.body() = std::move(body);
  return response;
}

Response refusal(const Request& request, http::status status, const std::string& reason) {
  return answer(request, status, "text/plain; charset=utf-8", reason + "\n");
}

Response data_answer(const Request& request, const LiveSnapshot& snapshot) {
  if (!snapshot.problem.empty()) return refusal(request, http::status::service_unavailable, snapshot.problem);
  const std::string tag = fmt::format("\"{}\"", snapshot.tag);
  const bool known = request[http::field::if_none_match] == tag;
  Response response = answer(request, known ? http::status::not_modified : http::status::ok,
                             "application/json", known ? "" : snapshot.data);
  response.set(http::field::etag, tag);
  if (known)
    response.erase(http::field::content_length);
  else
    response.set(http::field::content_encoding, "gzip");
  return response;
}

Response respond(const Request& request, const std::string& page, LiveReport& report) {
  if (request.count(http::field::host) != 1)
    return refusal(request, http::status::bad_request, "a request names its host once");
  const auto host = request[http::field::host];
  if (!is_own_name({host.data(), host.size()})) {
    return refusal(request, http::status::forbidden,
                   "this server answers only under its IP address, its host name and localhost");
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Response response =
        refusal(request, http::status::method_not_allowed, "this server is only read: GET or HEAD");
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  if (request.target() == "/") return answer(request, http::status::ok, "text/html; charset=utf-8", page);
  if (request.target() == "/data") return data_answer(request, *report.look());
  return refusal(request, http::status::not_found, "there is nothing here but / and /data");
}

// One connection, from request to request. It keeps itself alive as long as something is under way.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  Visit(tcp::socket socket, const std::string& page, LiveReport& report, std::size_t& visits)
      : stream_(std::move(socket)), page_(page), report_(report), visits_(visits) {
    ++visits_;
  }
  ~Visit() { --visits_; }

  void read() {
    parser_.emplace();
    parser_->header_limit(kLongestHeader);
    parser_->body_limit(0);
    stream_.expires_after(kPatience);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, std::size_t) { self->on_read(error); });
  }

 private:
  void on_read(beast::error_code error) {
    const bool gone = error == http::error::end_of_stream || error == http::error::partial_message;
    const bool misunderstood = error.category() == http::make_error_code(http::error::bad_target).category();
    if (error && (gone || !misunderstood)) return;
    // After a request that cannot be understood nobody knows where the next one begins.
    if (error) parser_->get().keep_alive(false);
    response_ = error ? refusal(parser_->get(), http::status::bad_request, error.message())
                      : respond(parser_->get(), page_, report_);
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_, [self = shared_from_this()](beast::error_code failed, std::size_t) {
      if (!failed && self->response_.keep_alive()) self->read();
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{2 * kLongestHeader};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  const std::string& page_;
  LiveReport& report_;
  std::size_t& visits_;
};

std::string explain(const LivePlace& place, const boost::system::error_code& error) {
  const std::string where = fmt::format("cannot listen on {} port {}: ", place.address, place.port);
  if (error == asio::error::address_in_use)
    return where + "it is in use; give another --port, or 0 for any that is free";
  if (error == asio::error::access_denied) return where + "not permitted; give a --port from 1024 on";
  if (error == boost::system::errc::address_not_available) {
    return where + "no interface of this machine has this address; leave --bind out for 127.0.0.1";
  }
  return where + error.message();
}

}  // namespace

struct LiveServer::Impl {
  LiveReport report;
  const std::string page;
  std::size_t visits = 0;  // of the serving thread
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  std::jthread serving;

  Impl(std::vector<std::filesystem::path> databases, const ReportOptions& options, const LivePlace& place)
      : report(std::move(databases), options), page(live_page(options.title)) {
    listen(place);
    accept();
    serving = std::jthread([this] { context.run(); });
  }
  ~Impl() { context.stop(); }

  void listen(const LivePlace& place) {
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(place.address, error);
    if (error) {
      throw UserError(
          fmt::format("--bind: '{}' is no IP address; give one of this machine, or 0.0.0.0 for all of them",
                      place.address));
    }
    const tcp::endpoint endpoint(address, place.port);
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error) throw UserError(explain(place, error));
  }

  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && visits < kMostVisits)
        std::make_shared<Visit>(std::move(socket), page, report, visits)->read();
      accept();
    });
  }
};

LiveServer::LiveServer(std::vector<std::filesystem::path> databases, const ReportOptions& options,
                       const LivePlace& place)
    : impl_(std::make_unique<Impl>(std::move(databases), options, place)) {}

LiveServer::~LiveServer() = default;

std::uint16_t LiveServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

std::string LiveServer::url() const {
  const asio::ip::address address = impl_->acceptor.local_endpoint().address();
  std::string name = address.to_string();
  if (address.is_unspecified())
    name = asio::ip::host_name();
  else if (address.is_v6())
    name = fmt::format("[{}]", name);
  return fmt::format("http://{}:{}/", name, port());
}

bool LiveServer::open_to_others() const {
  return !impl_->acceptor.local_endpoint().address().is_loopback();
}

}  // namespace knobwise
