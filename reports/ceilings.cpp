#include "reports/ceilings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace knobwise {
namespace {

using nlohmann::json;

constexpr const char* kResources[] = {"memory", "fp32", "tf32", "fp16", "bf16"};

// FLOP per multiprocessor and cycle.
struct Rates {
  std::string_view architecture;
  double fp32, tf32, fp16, bf16;
};
constexpr Rates kRates[] = {
    {"sm_80", 128, 1024, 2048, 2048},
    {"sm_86", 256, 256, 512, 512},
    {"sm_89", 256, 256, 512, 512},
    {"sm_90", 256, 2048, 4096, 4096},
};

json extra_facts(const DeviceRecord& device) {
  json extra = json::parse(device.extra, nullptr, false);
  return extra.is_object() ? extra : json::object();
}

double positive_number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::max(0.0, found->get<double>()) : 0.0;
}

double rated(const DeviceRecord& device, const json& extra, std::string_view resource) {
  const double cycles =
      1e3 * static_cast<double>(device.clock_khz) * static_cast<double>(device.multiprocessors);
  if (device.backend == "cpu") {
    constexpr double kFlopPerLane = 2 * 2;  // two units, multiply and add
    return resource == "fp32" ? cycles * kFlopPerLane * positive_number(extra, "vector_bytes") / sizeof(float)
                              : 0;
  }
  for (const Rates& rates : kRates) {
    if (!device.architecture.starts_with(rates.architecture)) continue;
    if (resource == "fp32") return cycles * rates.fp32;
    if (resource == "tf32") return cycles * rates.tf32;
    if (resource == "fp16") return cycles * rates.fp16;
    if (resource == "bf16") return cycles * rates.bf16;
  }
  return 0;
}

// What a precision mode computes with, and how many products a multiplication takes: as long as that many.
struct Arithmetic {
  std::string_view resource;
  int products = 1;
};

Arithmetic arithmetic_of(std::string_view precision, std::string_view dtype) {
  // Two products of e5m2, at twice the rate of fp16, take as long as one of fp16.
  if (precision == "fp16_e5m2") return {"fp16", 2};
  for (const std::string_view resource : {"fp32", "tf32", "fp16", "bf16"}) {
    if (!precision.starts_with(resource)) continue;
    const std::string_view rest = precision.substr(resource.size());
    if (rest.empty()) return {resource};
    if (rest.size() == 2 && rest[0] == 'x' && rest[1] >= '1' && rest[1] <= '9')
      return {resource, rest[1] - '0'};
  }
  return {dtype == "f16" ? "fp16" : dtype == "bf16" ? "bf16" : "fp32"};
}

}  // namespace

std::vector<Ceiling> device_ceilings(const DeviceRecord& device) {
  const json extra = extra_facts(device);
  const auto stored = extra.find("ceilings");
  const json measured = stored != extra.end() && stored->is_object() ? *stored : json::object();
  std::vector<Ceiling> ceilings;
  for (const char* resource : kResources) {
    const double value = positive_number(measured, resource);
    const double per_second = value > 0 ? value : rated(device, extra, resource);
    if (per_second > 0) ceilings.push_back({resource, per_second, value > 0});
  }
  return ceilings;
}

std::string with_ceilings(const std::string& extra, const std::map<std::string, double>& measured,
                          const std::string& moment) {
  json facts = json::parse(extra, nullptr, false);
  if (!facts.is_object()) facts = json::object();
  facts["ceilings"] = measured;
  facts["ceilings_measured"] = moment;
  return facts.dump();
}

std::optional<FloorTime> floor_time(const DeviceRecord& device, const ProblemRecord& problem,
                                    std::string_view precision) {
  if (problem.op.starts_with("user:")) return std::nullopt;
  const Arithmetic arithmetic = arithmetic_of(precision, problem.dtype);
  std::optional<FloorTime> floor;
  for (const Ceiling& ceiling : device_ceilings(device)) {
    double work = 0;
    if (ceiling.resource == "memory") {
      work = static_cast<double>(problem.compulsory_bytes);
    } else if (ceiling.resource == arithmetic.resource) {
      work = static_cast<double>(problem.flops) * arithmetic.products;
    }
    const double time_us = 1e6 * work / ceiling.per_second;
    if (work > 0 && (!floor || time_us > floor->time_us))
      floor = FloorTime{time_us, ceiling.resource, ceiling.measured};
  }
  return floor;
}

}  // namespace knobwise
