// One HTTP request to this machine, for the tests of the live report.
#pragma once

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <string>

namespace knobwise::report_tests {

namespace http = boost::beast::http;
using Response = http::response<http::string_body>;
using Fields = std::vector<std::pair<http::field, std::string>>;

inline boost::asio::ip::tcp::socket connect(boost::asio::io_context& context, std::uint16_t port) {
  boost::asio::ip::tcp::socket socket(context);
  socket.connect({boost::asio::ip::address_v4::loopback(), port});
  return socket;
}

inline Response request(std::uint16_t port, http::verb method, const std::string& target,
                        const Fields& fields) {
  http::request<http::empty_body> request(method, target, 11);
  for (const auto& [field, value] : fields) request.insert(field, value);
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket = connect(context, port);
  http::write(socket, request);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(64 << 20);
  parser.skip(method == http::verb::head);
  http::read(socket, buffer, parser);
  return parser.release();
}

inline Response get(std::uint16_t port, const std::string& target, const std::string& host = "localhost") {
  return request(port, http::verb::get, target, {{http::field::host, host}});
}

/// Sends bytes as they are; what comes back until the other side closes.
inline std::string exchange(std::uint16_t port, const std::string& bytes) {
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket = connect(context, port);
  boost::system::error_code closed;
  boost::asio::write(socket, boost::asio::buffer(bytes), closed);
  socket.shutdown(boost::asio::ip::tcp::socket::shutdown_send, closed);
  std::string received;
  boost::asio::read(socket, boost::asio::dynamic_buffer(received), closed);
  return received;
}

}  // namespace knobwise::report_tests
