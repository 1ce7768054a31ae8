// Databases with made-up searches, for the tests of the report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace knobwise::report_tests {

/// Three problems on two devices: sessions of two strategies, baselines, failures of many kinds, precision
/// modes, an older source of one family. About `trials` trials a problem and device; deterministic.
void make_sweep(const std::filesystem::path& path, std::size_t trials = 240);
/// No rows at all.
void make_empty(const std::filesystem::path& path);
/// One session whose trials all failed.
void make_only_failures(const std::filesystem::path& path);
/// One session with one good trial.
void make_one_trial(const std::filesystem::path& path);
/// Names, values and messages with markup, quotes, emoji and right-to-left text.
void make_hostile(const std::filesystem::path& path);

/// A kernel whose default was measured, and whose source then changed: the new one's default was not
/// measured.
void make_changed_source(const std::filesystem::path& path);

/// A session that goes on while others look on.
class RunningSearch {
 public:
  explicit RunningSearch(const std::filesystem::path& path);
  ~RunningSearch();
  /// Stores so many more trials, each in a transaction of its own.
  void add(std::size_t trials);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace knobwise::report_tests
