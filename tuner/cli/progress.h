// How a session shows itself while it runs.
#pragma once

#include <chrono>
#include <string>

#include "tuner/session.h"

namespace knobwise::cli {

/// Writes to standard error: on a terminal one line that updates, elsewhere a line for every improvement and
/// one every ten seconds. Not thread-safe.
class Progress : public SessionListener {
 public:
  /// `subject` begins every line.
  explicit Progress(std::string subject);
  ~Progress() override;

  void note(const std::string& line) override;
  void trial(const TrialEvent& event) override;
  void waiting(const WaitingEvent& event) override;

 private:
  void clear_line();
  void show(const std::string& line);

  std::string subject_;
  bool terminal_;
  bool line_open_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace knobwise::cli
