#include "runtime/key_bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace knobwise::runtime_detail {
namespace {

// Integers take a byte for each 7 bits, small ones of either sign first; doubles their 8 bytes; what has a
// length, its length first.
class Writer {
 public:
  explicit Writer(KeyBytes& to) : to_(to) {}

  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void operator()(T value) {
    const auto number = static_cast<std::int64_t>(value);
    auto bits = static_cast<std::uint64_t>(number) << 1 ^ static_cast<std::uint64_t>(number >> 63);
    for (; bits >= 0x80; bits >>= 7) to_.push_back(static_cast<char>(bits | 0x80));
    to_.push_back(static_cast<char>(bits));
  }
  void operator()(double value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    to_.append(bytes, bytes + sizeof bytes);
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    to_.append(text.data(), text.data() + text.size());
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  template <class T, class Visit>
  void list(const std::vector<T>& items, Visit visit) {
    (*this)(items.size());
    for (const T& item : items) visit(item);
  }

 private:
  KeyBytes& to_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void operator()(T& value) {
    std::uint64_t bits = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      bits |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    value = static_cast<T>(static_cast<std::int64_t>(bits >> 1) ^ -static_cast<std::int64_t>(bits & 1));
  }
  void operator()(double& value) { std::memcpy(&value, take(sizeof value).data(), sizeof value); }
  void operator()(std::string& text) { text = take(length()); }
  template <class T, class Visit>
  void list(std::vector<T>& items, Visit visit) {
    items.resize(length());
    for (T& item : items) visit(item);
  }

 private:
  std::size_t length() {
    std::size_t value = 0;
    (*this)(value);
    return value;
  }
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
};

// Writing and reading go through the same list, so that they agree.
template <class Coder, class ProblemType>
void code_problem(Coder& code, ProblemType& p) {
  code(p.rank), code(p.n), code(p.c), code(p.k), code(p.groups);
  for (auto* extents : {&p.in, &p.filter, &p.stride, &p.pad, &p.dilation})
    for (auto& extent : *extents) code(extent);
  code(p.bias), code(p.dtype), code(p.layout), code(p.user);
  code.list(p.epilogue, [&code](auto& step) {
    code(step.op), code(step.axis), code(step.groups), code(step.affine);
    code.list(step.numbers, [&code](auto& number) { code(number); });
  });
}

}  // namespace

void append_key(const Problem& problem, const Requirement& requirement, KeyBytes& to) {
  Writer code(to);
  code_problem(code, problem);
  code(requirement.accuracy.has_value());
  if (const auto& accuracy = requirement.accuracy)
    code(accuracy->max_abs), code(accuracy->rel_fro), code(accuracy->frac_outside);
  code(requirement.max_workspace_bytes);
  code(requirement.allow.bits()), code(requirement.deterministic), code(requirement.allow_stale);
}

Problem problem_of_key(std::string_view bytes) {
  Reader code(bytes);
  Problem problem;
  code_problem(code, problem);
  return problem;
}

std::uint64_t hash_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace knobwise::runtime_detail
