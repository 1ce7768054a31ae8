#include "reports/knob_table.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace knobwise {
namespace {

using nlohmann::ordered_json;

// Numbers in order of value before everything else in order of text.
bool ordered_before(const std::string& a, const std::string& b) {
  const ordered_json left = ordered_json::parse(a);
  const ordered_json right = ordered_json::parse(b);
  if (left.is_number() != right.is_number()) return left.is_number();
  if (left.is_number()) return left.get<double>() < right.get<double>();
  return a < b;
}

void sort_values(KnobColumn& column) {
  std::vector<std::int32_t> order(column.values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return ordered_before(column.values[a], column.values[b]);
  });
  std::vector<std::int32_t> place(order.size());
  std::vector<std::string> sorted(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<std::int32_t>(i);
    sorted[i] = std::move(column.values[order[i]]);
  }
  column.values = std::move(sorted);
  for (std::int32_t& value : column.value_of) {
    if (value >= 0) value = place[value];
  }
}

}  // namespace

std::vector<KnobColumn> knob_table(const std::vector<TrialRecord>& trials) {
  std::vector<KnobColumn> columns;
  std::unordered_map<std::string, std::size_t> column_of;
  std::vector<std::unordered_map<std::string, std::int32_t>> index_of;
  for (std::size_t trial = 0; trial < trials.size(); ++trial) {
    const ordered_json configuration = ordered_json::parse(trials[trial].configuration);
    for (const auto& [name, value] : configuration.items()) {
      const auto [column, added] = column_of.try_emplace(name, columns.size());
      if (added) {
        columns.push_back({name, {}, std::vector<std::int32_t>(trials.size(), -1)});
        index_of.emplace_back();
      }
      KnobColumn& knob = columns[column->second];
      const auto [index, fresh] = index_of[column->second].try_emplace(
          value.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
          static_cast<std::int32_t>(knob.values.size()));
      if (fresh) knob.values.push_back(index->first);
      knob.value_of[trial] = index->second;
    }
  }
  for (KnobColumn& column : columns) sort_values(column);
  return columns;
}

}  // namespace knobwise
