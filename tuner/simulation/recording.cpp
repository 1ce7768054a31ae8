#include "tuner/simulation/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "search_spaces/json_text.h"
#include "search_spaces/user_error.h"
#include "tuner/simulation/gzip_file.h"

namespace knobwise {
namespace {

using nlohmann::json;

constexpr double kFailed = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kMostConfigurations = 100'000'000;

json parse_without_samples(const std::string& text, const std::string& path) {
  require_shallow_json(text, path);
  // The samples of every trial are most of the file and are not needed.
  const json::parser_callback_t keep = [](int, json::parse_event_t event, json& parsed) {
    return event != json::parse_event_t::key || parsed != "runtimes";
  };
  try {
    return json::parse(text, keep);
  } catch (const json::exception& error) {
    throw UserError(fmt::format("{}: is not JSON: {}", path, error.what()));
  }
}

std::string objective_of(const json& result) {
  const auto objectives = result.find("objectives");
  return objectives != result.end() && objectives->is_array() && !objectives->empty()
             ? objectives->front().get<std::string>()
             : "";
}

double time_of(const json& result) {
  if (result.value("invalidity", "correct") != "correct") return kFailed;
  const json& measurements = result.at("measurements");
  const std::string objective = objective_of(result);
  const json* chosen = measurements.empty() ? nullptr : &measurements.front();
  for (const json& measurement : measurements) {
    if (measurement.value("name", "") == objective) chosen = &measurement;
  }
  if (chosen == nullptr || !chosen->at("value").is_number()) return kFailed;
  const double value = chosen->at("value").get<double>();
  return std::isfinite(value) && value > 0 ? value : kFailed;
}

const json& results_of(const json& document, const std::string& path) {
  const auto results = document.is_object() ? document.find("results") : document.end();
  if (!document.is_object() || results == document.end() || !results->is_array()) {
    throw UserError(fmt::format("{}: is not a T4 file: it has no list `results`", path));
  }
  return *results;
}

}  // namespace

Recording load_recording(const std::string& path, const BoundSpace& space) {
  if (space.size() > kMostConfigurations) {
    throw UserError(
        fmt::format("{}: space `{}` has {} configurations, and at most {} can be replayed; is it the space "
                    "that was recorded?",
                    path, space.name(), space.size(), kMostConfigurations));
  }
  const json document = parse_without_samples(read_file_or_gzip(path), path);
  Recording recording;
  recording.source = path;
  recording.times.assign(space.size(), kFailed);
  std::vector<bool> recorded(space.size(), false);
  std::uint64_t successes = 0, number = 0;
  for (const json& result : results_of(document, path)) {
    ++number;
    try {
      const auto index = space.index_of(Configuration::from_json(result.at("configuration").dump()));
      if (!index) {
        ++recording.foreign;
        continue;
      }
      recorded[*index] = true;
      const double time = recording.times[*index] = time_of(result);
      ++(time < kFailed ? successes : recording.failures);
    } catch (const std::exception& error) {
      throw UserError(fmt::format("{}: result {} is not a T4 result: {}", path, number, error.what()));
    }
  }
  recording.unrecorded = static_cast<std::uint64_t>(std::count(recorded.begin(), recorded.end(), false));
  if (successes == 0) {
    throw UserError(fmt::format("{}: holds no success of space `{}`; is --space the space that was recorded?",
                                path, space.name()));
  }
  return recording;
}

}  // namespace knobwise
