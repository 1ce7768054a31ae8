#include "tuner/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "tuner/cli/command.h"

namespace knobwise::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kTerminalInterval = std::chrono::milliseconds(100);
constexpr Clock::duration kLogInterval = std::chrono::seconds(10);

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string format_seconds(double seconds) {
  const long whole = static_cast<long>(seconds + 0.5);
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string describe(const SessionProgress& event) {
  std::string text = event.total > 0 ? fmt::format("{}/{} trials", event.done, event.total)
                                     : fmt::format("{} trials", event.done);
  if (!event.device.empty()) text = event.device + " " + text;
  if (event.best_us > 0) text += fmt::format(", best {}", format_time(event.best_us));
  if (event.done == 0) return text + ", " + format_seconds(event.seconds);
  const double rate = static_cast<double>(event.done) / std::max(event.seconds, 1e-3);
  text += fmt::format(", {:.1f}/s, {}", rate, format_seconds(event.seconds));
  if (event.total > event.done) {
    text += fmt::format(", {} left", format_seconds(static_cast<double>(event.total - event.done) / rate));
  }
  return text;
}

std::string describe(const WaitingEvent& event) {
  std::string text = describe(static_cast<const SessionProgress&>(event));
  const auto add = [&text](const char* what, std::size_t count, double seconds) {
    if (count > 0) text += fmt::format(", {} {} for {}", what, count, format_seconds(seconds));
  };
  add("compiling", event.compiling, event.compiling_seconds);
  add("measuring", event.measuring, event.measuring_seconds);
  return text;
}

}  // namespace

Progress::Progress(std::string subject)
    : subject_(std::move(subject)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear_line();
}

void Progress::clear_line() {
  if (line_open_) std::cerr << "\r\x1b[K" << std::flush;
  line_open_ = false;
}

void Progress::note(const std::string& line) {
  clear_line();
  std::cerr << subject_ << ": " << line << "\n";
}

// The line that updates, or one of its own.
void Progress::show(const std::string& line) {
  if (terminal_) {
    std::cerr << "\r\x1b[K" << line.substr(0, terminal_width() - 1) << std::flush;
    line_open_ = true;
  } else {
    std::cerr << line << "\n";
  }
  last_ = Clock::now();
}

void Progress::waiting(const WaitingEvent& event) {
  if (Clock::now() - last_ < (terminal_ ? kTerminalInterval : kLogInterval)) return;
  show(fmt::format("{}: {}", subject_, describe(event)));
}

void Progress::trial(const TrialEvent& event) {
  if (Clock::now() - last_ < (terminal_ ? kTerminalInterval : kLogInterval) && !event.improved) return;
  std::string line = fmt::format("{}: {}", subject_, describe(event));
  if (!terminal_ && event.improved) line += fmt::format(" ({})", event.family);
  show(line);
}

}  // namespace knobwise::cli
