// A listener that hears nothing.
#pragma once

#include <string>

#include "tuner/session.h"

namespace knobwise::test {

class Silent : public SessionListener {
 public:
  void note(const std::string&) override {}
  void trial(const TrialEvent&) override {}
};

}  // namespace knobwise::test
