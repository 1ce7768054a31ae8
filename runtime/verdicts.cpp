#include "runtime/verdicts.h"

#include <fmt/format.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/device.h"

namespace knobwise::runtime_detail {

std::string Verdicts::key(const Problem& problem, const KernelFamily& family,
                          const Configuration& configuration, const DeviceInfo& device) {
  return fmt::format("{}\n{} {} {}\n{}\n{} {} {} {}\n{}\n{}\n{}\n{}", problem.to_string(),
                     to_string(family.backend()), family.name(), family.source_hash(),
                     configuration.to_json(), device.name, device.architecture, device.multiprocessors,
                     device.vector_bytes, device.driver_version, compiler_version(device.backend),
                     compile_options(device), KNOBWISE_VERSION);
}

std::filesystem::path Verdicts::path_of(const std::string& key) const {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return folder_ / fmt::format("{:016x}{:016x}.error.json", hash.high64, hash.low64);
}

std::optional<ErrorMetrics> Verdicts::find(const std::string& key) const {
  try {
    std::ifstream file(path_of(key));
    const nlohmann::json json = nlohmann::json::parse(file);
    if (json.at("key").get<std::string>() != key) return std::nullopt;
    ErrorMetrics metrics;
    metrics.max_abs = json.at("max_abs").get<double>();
    metrics.mean_abs = json.at("mean_abs").get<double>();
    metrics.rms = json.at("rms").get<double>();
    metrics.rel_fro = json.at("rel_fro").get<double>();
    metrics.frac_outside = json.at("frac_outside").get<double>();
    metrics.checked = json.at("checked").get<std::int64_t>();
    metrics.nans = json.at("nans").get<std::int64_t>();
    return metrics;
  } catch (const std::exception&) {  // of the parser, or of a file that cannot be read
    return std::nullopt;
  }
}

void Verdicts::store(const std::string& key, const ErrorMetrics& metrics) const {
  // JSON has no infinity; such an error is measured again.
  if (!std::isfinite(metrics.max_abs) || !std::isfinite(metrics.rel_fro) || !std::isfinite(metrics.rms))
    return;
  const nlohmann::json json = {{"key", key},
                               {"max_abs", metrics.max_abs},
                               {"mean_abs", metrics.mean_abs},
                               {"rms", metrics.rms},
                               {"rel_fro", metrics.rel_fro},
                               {"frac_outside", metrics.frac_outside},
                               {"checked", metrics.checked},
                               {"nans", metrics.nans}};
  // Written beside and renamed, so that a reader sees a whole file or none.
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path path = path_of(key);
  const std::filesystem::path temporary = fmt::format("{}.{}.{}", path.string(), getpid(), counter++);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  std::ofstream file(temporary);
  file << json.dump();
  file.close();
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error) std::filesystem::remove(temporary, error);
}

}  // namespace knobwise::runtime_detail
