// What a mistake of the caller is told.
#pragma once

#include <string>

#include "search_spaces/user_error.h"

namespace knobwise::test {

/// The message of the UserError that a call throws; "no UserError" if it throws none.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError";
}

}  // namespace knobwise::test
