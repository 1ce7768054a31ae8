#include <sstream>
#include <stdexcept>
#include <string>

#include "db/exchange_formats.h"
#include "db/store.h"
#include "kernels/problem.h"
#include "search_spaces/space.h"
#include "search_spaces/user_error.h"
#include "tests/fuzz/targets.h"

namespace knobwise::fuzz {
namespace {

template <class Body>
void allow_user_errors(Body&& body) {
  try {
    body();
  } catch (const UserError&) {
  }
}

/// Making a database takes longer than an input: one serves many.
template <class Read>
void import_into_memory(std::string_view text, Read&& read) {
  constexpr int kInputs = 1000;
  static Store store = Store::in_memory();
  static int inputs = 0;
  if (++inputs % kInputs == 0) store = Store::in_memory();
  allow_user_errors([&] {
    std::istringstream in{std::string(text)};
    read(store, in, "input");
  });
}

}  // namespace

void t1(std::string_view text) {
  allow_user_errors([&] { SearchSpace::parse(text, "input"); });
}

void t4(std::string_view text) {
  import_into_memory(text, read_t4);
}

void csv(std::string_view text) {
  import_into_memory(text, read_csv);
}

void problem(std::string_view text) {
  allow_user_errors([&] {
    const std::string line = Problem::parse(text).to_string();
    if (Problem::parse(line).to_string() != line)
      throw std::logic_error("the canonical line does not parse back");
  });
}

}  // namespace knobwise::fuzz
