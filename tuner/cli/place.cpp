#include "tuner/cli/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace knobwise::cli {
namespace {

constexpr std::size_t kBefore = 32;  // bytes of the text shown before the mistake, and in all
constexpr std::size_t kShown = 70;
constexpr std::string_view kCut = "...";

// A byte within a UTF-8 character, which takes no column of its own.
bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !continues(byte); }));
}

std::string printable(std::string_view text) {
  std::string result(text);
  std::replace_if(
      result.begin(), result.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');
  return result;
}

std::string format_place(std::string_view text, std::size_t offset, std::size_t length) {
  std::size_t begin = text.size() > kShown && offset > kBefore ? offset - kBefore : 0;
  while (begin < offset && continues(text[begin])) ++begin;
  std::size_t end = std::min(begin + kShown, text.size());
  while (end > offset && end < text.size() && continues(text[end])) --end;
  const std::string_view before = begin > 0 ? kCut : "", after = end < text.size() ? kCut : "";
  const std::size_t indent = before.size() + columns(text.substr(begin, offset - begin));
  const std::size_t marked = columns(text.substr(offset, std::min(length, end - offset)));
  return fmt::format("  {}{}{}\n  {:{}}{:^>{}}\n", before, printable(text.substr(begin, end - begin)), after,
                     "", indent, "", std::max<std::size_t>(marked, 1));
}

}  // namespace

std::string format_error(const UserError& error) {
  const std::string& text = error.text();
  const bool placed = !text.empty() && (error.length() > 0 || error.offset() >= text.size());
  return printable(error.what()) + "\n" +
         (placed ? format_place(text, std::min(error.offset(), text.size()), error.length()) : "");
}

}  // namespace knobwise::cli
