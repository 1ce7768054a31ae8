// The knobwise executable at work for this process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace knobwise::runtime_detail {

/// `chosen`, else $KNOBWISE_EXECUTABLE, else `knobwise` on the PATH. Throws UserError when there is none that
/// can be run.
std::filesystem::path find_knobwise(const std::filesystem::path& chosen);

/// A command in a session of its own, so that it can be ended with everything it started. Used by one thread.
class TuningProcess {
 public:
  /// Standard input and output are /dev/null; no descriptor of this process is inherited; `setting` is added
  /// to the environment ("NAME=value"). Throws UserError when it cannot be started.
  TuningProcess(const std::vector<std::string>& command, const std::string& setting);
  /// Ends the whole session at once.
  ~TuningProcess();
  TuningProcess(const TuningProcess&) = delete;
  TuningProcess& operator=(const TuningProcess&) = delete;

  /// How it ended: empty for exit status 0, else words for people, with the last line of its standard error.
  /// Nothing as long as it runs.
  std::optional<std::string> outcome() const;

  /// Asks it to end.
  void interrupt() const;

 private:
  void cut_errors() const;
  std::string last_line() const;

  pid_t pid_ = -1;
  int errors_ = -1;  // an unnamed file that takes its standard error
};

}  // namespace knobwise::runtime_detail
