// The report of databases that grow: read again whenever they have changed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reports/report.h"

namespace knobwise {

/// What a viewer gets at one moment.
struct LiveSnapshot {
  std::string data;  ///< The report's data as JSON, in gzip's format.
  std::string tag;   ///< Names the data: another text whenever the data are others.
  std::string
      problem;  ///< Why the databases cannot be read just now, else empty; `data` are the last good ones.
};

/// Reads databases read-only on a thread of its own. As long as nobody looks, nothing is read; a reading that
/// takes long is followed by a longer pause, so that a search on the same machine keeps its processor.
///
/// Thread safety: any thread may call look().
class LiveReport {
 public:
  /// Reads for the first time. Throws UserError as write_report() does.
  LiveReport(std::vector<std::filesystem::path> databases, ReportOptions options);
  ~LiveReport();
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;

  /// The newest data at hand, at once; changed databases are read again soon after. Never null.
  std::shared_ptr<const LiveSnapshot> look();

 private:
  // When a file was changed last, and its size; equal while nobody writes.
  using Stamp = std::pair<std::filesystem::file_time_type, std::uintmax_t>;

  std::vector<Stamp> stamps() const;
  std::string read();
  void refresh();
  void follow(const std::stop_token& stop);

  const std::vector<std::filesystem::path> databases_;
  const ReportOptions options_;
  const std::string run_;  // tells the tags of one server from those of the next
  std::vector<Stamp> read_stamps_;
  std::uint64_t readings_ = 0;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool wanted_ = false;
  std::shared_ptr<const LiveSnapshot> snapshot_;
  std::jthread follower_;  // last: it uses all of the above
};

}  // namespace knobwise
