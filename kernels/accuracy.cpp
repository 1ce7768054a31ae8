#include "kernels/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "search_spaces/never_destroyed.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr double kTolerance = 1e-4;  // absolute and relative, the published gate of the reference problems

struct NamedRequirement {
  std::string_view name;
  AccuracyRequirement requirement;
};

const std::vector<NamedRequirement>& named_requirements() {
  static const auto& all = never_destroyed(std::vector<NamedRequirement>{
      {"allclose", {std::nullopt, std::nullopt, 0.0}},
      {"tf32", {std::nullopt, 1e-3, std::nullopt}},
      {"half", {std::nullopt, 2e-3, std::nullopt}},
      {"bf16", {std::nullopt, 1.6e-2, std::nullopt}},
      {"any", {}},
  });
  return all;
}

double positive_number(std::string_view text, std::string_view key) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) {
    throw UserError(fmt::format("accuracy: {}='{}' is not a number of at least 0", key, text));
  }
  return value;
}

}  // namespace

std::string_view to_string(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return "uniform";
    case Distribution::normal:
      return "normal";
    case Distribution::integers:
      return "integers";
  }
  return "";
}

void ErrorAccumulator::add(double out, double ref) {
  ++checked_;
  if (std::isnan(ref) && std::isnan(out)) return;
  if (std::isnan(out) || std::isnan(ref)) {
    ++nans_;
    ++outside_;
    return;
  }
  // Infinities agree or are infinitely wrong; their difference would be NaN.
  const double error = out == ref ? 0 : std::abs(out - ref);
  max_abs_ = std::max(max_abs_, error);
  sum_abs_ += error;
  sum_squares_ += error * error;
  if (std::isfinite(ref)) sum_ref_squares_ += ref * ref;
  if (!(error <= kTolerance + kTolerance * std::abs(ref)) || std::isinf(error)) ++outside_;
}

void ErrorAccumulator::merge(const ErrorAccumulator& other) {
  max_abs_ = std::max(max_abs_, other.max_abs_);
  sum_abs_ += other.sum_abs_;
  sum_squares_ += other.sum_squares_;
  sum_ref_squares_ += other.sum_ref_squares_;
  checked_ += other.checked_;
  outside_ += other.outside_;
  nans_ += other.nans_;
}

ErrorMetrics ErrorAccumulator::metrics() const {
  ErrorMetrics metrics;
  metrics.checked = checked_;
  metrics.nans = nans_;
  metrics.max_abs = max_abs_;
  const double compared = static_cast<double>(std::max<std::int64_t>(checked_ - nans_, 1));
  metrics.mean_abs = sum_abs_ / compared;
  metrics.rms = std::sqrt(sum_squares_ / compared);
  metrics.frac_outside = checked_ > 0 ? static_cast<double>(outside_) / static_cast<double>(checked_) : 0;
  if (sum_squares_ > 0) {
    metrics.rel_fro = sum_ref_squares_ > 0 ? std::sqrt(sum_squares_ / sum_ref_squares_) : HUGE_VAL;
  }
  return metrics;
}

AccuracyRequirement AccuracyRequirement::parse(std::string_view text) {
  if (text == "allclose 1e-4") text = "allclose";
  for (const NamedRequirement& named : named_requirements()) {
    if (text == named.name) return named.requirement;
  }
  AccuracyRequirement requirement;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, equals);
    std::optional<double>* metric = key == "max_abs"        ? &requirement.max_abs
                                    : key == "rel_fro"      ? &requirement.rel_fro
                                    : key == "frac_outside" ? &requirement.frac_outside
                                                            : nullptr;
    if (!metric || equals == part.size()) {
      throw UserError(
          fmt::format("accuracy: '{}' is not understood; use allclose, tf32, half, bf16, any, or numbers for "
                      "max_abs, rel_fro, frac_outside such as rel_fro=1e-3,max_abs=0.01",
                      part));
    }
    if (*metric) throw UserError(fmt::format("accuracy: '{}' is given twice", key));
    *metric = positive_number(part.substr(equals + 1), key);
    begin = end + 1;
  }
  return requirement;
}

std::vector<AccuracyRequirement> AccuracyRequirement::named() {
  std::vector<AccuracyRequirement> all;
  for (const NamedRequirement& named : named_requirements()) all.push_back(named.requirement);
  return all;
}

std::string AccuracyRequirement::to_string() const {
  for (const NamedRequirement& named : named_requirements()) {
    if (max_abs == named.requirement.max_abs && rel_fro == named.requirement.rel_fro &&
        frac_outside == named.requirement.frac_outside) {
      return std::string(named.name);
    }
  }
  std::string text;
  const auto append = [&text](std::string_view key, const std::optional<double>& value) {
    if (value) text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, *value);
  };
  append("max_abs", max_abs);
  append("rel_fro", rel_fro);
  append("frac_outside", frac_outside);
  return text;
}

bool AccuracyRequirement::accepts(const ErrorMetrics& metrics) const {
  // Written so that a NaN metric fails every limit.
  const auto within = [](double value, const std::optional<double>& limit) {
    return !limit || value <= *limit;
  };
  return metrics.checked > 0 && metrics.nans == 0 && within(metrics.max_abs, max_abs) &&
         within(metrics.rel_fro, rel_fro) && within(metrics.frac_outside, frac_outside);
}

}  // namespace knobwise
