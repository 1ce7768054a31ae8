// What the page does with its data, for the tests.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>

namespace knobwise::report_tests {

/// The JSON document in a text of gzip's format.
inline nlohmann::json gunzip_json(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    char chunk[65536];
    stream.next_out = reinterpret_cast<Bytef*>(chunk);
    stream.avail_out = sizeof chunk;
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(chunk, sizeof chunk - stream.avail_out);
  }
  inflateEnd(&stream);
  EXPECT_EQ(status, Z_STREAM_END);
  return nlohmann::json::parse(text);
}

/// Over all groups of a report's data.
inline std::size_t count_trials(const nlohmann::json& data) {
  std::size_t count = 0;
  for (const nlohmann::json& group : data["groups"]) count += group["count"].get<std::size_t>();
  return count;
}

}  // namespace knobwise::report_tests
