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
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(10);

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string format_seconds(double seconds) {
  const long whole = static_cast<long>(seconds + 0.5);
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string describe(const TrialEvent& event) {
  std::string text = event.total > 0 ? fmt::format("{}/{} trials", event.done, event.total)
                                     : fmt::format("{} trials", event.done);
  if (!event.device.empty()) text = event.device + " " + text;
  if (event.best_us > 0) text += fmt::format(", best {}", format_time(event.best_us));
  const double rate = static_cast<double>(event.done) / std::max(event.seconds, 1e-3);
  text += fmt::format(", {:.1f}/s, {}", rate, format_seconds(event.seconds));
  if (event.total > event.done) {
    text += fmt::format(", {} left", format_seconds(static_cast<double>(event.total - event.done) / rate));
  }
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

void Progress::trial(const TrialEvent& event) {
  const Clock::time_point now = Clock::now();
  if (terminal_) {
    if (now - last_ < kTerminalInterval && !event.improved) return;
    const std::string line = fmt::format("{}: {}", subject_, describe(event));
    std::cerr << "\r\x1b[K" << line.substr(0, terminal_width() - 1) << std::flush;
    line_open_ = true;
  } else {
    if (now - last_ < kLogInterval && !event.improved) return;
    std::cerr << fmt::format("{}: {}{}\n", subject_, describe(event),
                             event.improved ? fmt::format(" ({})", event.family) : "");
  }
  last_ = now;
}

}  // namespace knobwise::cli
