// Databases with made-up searches, for the tests of the report.
#pragma once

#include <cstddef>
#include <filesystem>

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

}  // namespace knobwise::report_tests
