// Records as JSON objects, by the names of their columns. Private to db/.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "db/columns.h"

namespace knobwise {

/// NaN becomes null; absent values are left out.
struct JsonWriter {
  nlohmann::ordered_json& object;

  template <class Value>
  void operator()(const char* name, const Value& value) {
    object[name] = value;
  }
  void operator()(const char* name, double value) {
    object[name] = std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
  void operator()(const char* name, TrialStatus value) { object[name] = to_string(value); }
  void operator()(const char* name, SessionState value) { object[name] = to_string(value); }
  void operator()(const char* name, TimeKind value) { object[name] = to_string(value); }
  template <class Value>
  void operator()(const char* name, const std::optional<Value>& value) {
    if (value) (*this)(name, *value);
  }
  void timing(const TimingRecord& timing) { visit_columns(timing, *this); }
  void timing(const std::optional<TimingRecord>& optional) {
    if (optional) timing(*optional);
  }
};

/// Throws nlohmann::json::exception for a field that is missing or of another type, std::invalid_argument for
/// a word outside its list.
struct JsonReader {
  const nlohmann::ordered_json& object;

  template <class Value>
  void operator()(const char* name, Value& value) {
    value = object.at(name).template get<Value>();
  }
  /// A fraction, or a number that the type does not hold, is no value of it.
  template <std::integral Integer>
  void operator()(const char* name, Integer& value) {
    const auto& field = object.at(name);
    const bool fits = field.is_number_unsigned()
                          ? std::in_range<Integer>(field.get<std::uint64_t>())
                          : field.is_number_integer() && std::in_range<Integer>(field.get<std::int64_t>());
    if (!fits) throw std::invalid_argument(std::string(name) + " is no integer of 64 bits");
    value = field.get<Integer>();
  }
  void operator()(const char* name, double& value) {
    const auto& field = object.at(name);
    value = field.is_null() ? std::numeric_limits<double>::quiet_NaN() : field.get<double>();
  }
  void operator()(const char* name, TrialStatus& value) { value = parse_trial_status(word(name)); }
  void operator()(const char* name, SessionState& value) { value = parse_session_state(word(name)); }
  void operator()(const char* name, TimeKind& value) { value = parse_time_kind(word(name)); }
  template <class Value>
  void operator()(const char* name, std::optional<Value>& value) {
    value.reset();
    if (object.contains(name)) (*this)(name, value.emplace());
  }
  void timing(TimingRecord& timing) { visit_columns(timing, *this); }
  void timing(std::optional<TimingRecord>& optional) {
    optional.reset();
    if (object.contains("time_us")) timing(optional.emplace());
  }
  std::string word(const char* name) { return object.at(name).get<std::string>(); }
};

template <class Record>
nlohmann::ordered_json to_json_object(const Record& record) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  JsonWriter writer{object};
  visit_columns(record, writer);
  return object;
}

template <class Record>
Record from_json_object(const nlohmann::ordered_json& object) {
  Record record;
  JsonReader reader{object};
  visit_columns(record, reader);
  return record;
}

}  // namespace knobwise
