#include "reports/page.h"

#include <zlib.h>

#include <stdexcept>

#include "embedded/report_page.h"

namespace knobwise {
namespace {

std::string base64(std::string_view bytes) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t offset) {
      return i + offset < bytes.size() ? static_cast<unsigned char>(bytes[i + offset]) : 0u;
    };
    const unsigned bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    text += kAlphabet[bits >> 18];
    text += kAlphabet[bits >> 12 & 63];
    text += i + 1 < bytes.size() ? kAlphabet[bits >> 6 & 63] : '=';
    text += i + 2 < bytes.size() ? kAlphabet[bits & 63] : '=';
  }
  return text;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

void replace_marker(std::string& page, std::string_view marker, std::string_view text) {
  const std::size_t place = page.find(marker);
  if (place == std::string::npos) throw std::logic_error("the built page lacks a marker");
  page.replace(place, marker.size(), text);
}

// The title comes last: it may hold anything, markers included.
std::string assemble(std::string_view title, std::string_view connections, const std::string& data) {
  std::string page(report_page().at(0).second);
  replace_marker(page, "%KNOBWISE_CONNECTIONS%", connections);
  replace_marker(page, "%KNOBWISE_DATA%", data);
  replace_marker(page, "%KNOBWISE_TITLE%", escape_html(title));
  return page;
}

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipHeader = 16;
  if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + kGzipHeader, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib refuses to start");
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("zlib cannot compress the report's data");
  return packed;
}

std::string fill_page(std::string_view title, std::string_view data_json) {
  return assemble(title, "'none'", base64(gzip(data_json)));
}

std::string live_page(std::string_view title) {
  return assemble(title, "'self'", "");
}

}  // namespace knobwise
