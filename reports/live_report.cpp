#include "reports/live_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "db/identifiers.h"
#include "reports/data_json.h"
#include "reports/page.h"
#include "reports/report_data.h"

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Clock::duration kShortestPause = std::chrono::milliseconds(500);
constexpr int kPausePerReading = 4;  // a fifth of one core at most

}  // namespace

LiveReport::LiveReport(std::vector<std::filesystem::path> databases, ReportOptions options)
    : databases_(std::move(databases)), options_(std::move(options)), run_(make_uuid()) {
  read_stamps_ = stamps();
  std::string data = read();
  snapshot_ = std::make_shared<LiveSnapshot>(LiveSnapshot{std::move(data), fmt::format("{}-0", run_), ""});
  follower_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
}

LiveReport::~LiveReport() = default;

std::shared_ptr<const LiveSnapshot> LiveReport::look() {
  const std::lock_guard lock(mutex_);
  wanted_ = true;
  wake_.notify_one();
  return snapshot_;
}

// A write-ahead log holds what the database file does not have yet.
std::vector<LiveReport::Stamp> LiveReport::stamps() const {
  std::vector<Stamp> all;
  for (const std::filesystem::path& database : databases_) {
    for (const char* suffix : {"", "-wal"}) {
      const std::filesystem::path file = database.string() + suffix;
      std::error_code missing;
      all.emplace_back(std::filesystem::last_write_time(file, missing),
                       std::filesystem::file_size(file, missing));
    }
  }
  return all;
}

std::string LiveReport::read() {
  return gzip(report_json(read_report_data(databases_, options_), options_));
}

void LiveReport::refresh() {
  // Taken before reading: what is written meanwhile differs from them and is read the next time.
  std::vector<Stamp> now = stamps();
  const std::shared_ptr<const LiveSnapshot> last = snapshot_;
  if (now == read_stamps_ && last->problem.empty()) return;
  LiveSnapshot next = *last;
  try {
    next.data = read();
    next.tag = fmt::format("{}-{}", run_, ++readings_);
    next.problem.clear();
    read_stamps_ = std::move(now);
  } catch (const std::exception& problem) {
    next.problem = problem.what();
  }
  const std::lock_guard lock(mutex_);
  snapshot_ = std::make_shared<LiveSnapshot>(std::move(next));
}

void LiveReport::follow(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [this] { return wanted_; })) return;
    wanted_ = false;
    lock.unlock();
    const Clock::time_point start = Clock::now();
    refresh();
    const Clock::duration pause = std::max(kShortestPause, kPausePerReading * (Clock::now() - start));
    lock.lock();
    wake_.wait_for(lock, stop, pause, [] { return false; });
  }
}

}  // namespace knobwise
