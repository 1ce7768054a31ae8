#include "tuner/evaluation/workers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/code_cache.h"
#include "kernels/device.h"
#include "kernels/family.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/channel.h"
#include "tuner/evaluation/measurement.h"
#include "tuner/evaluation/messages.h"

namespace knobwise {
namespace {

using nlohmann::json;

const KernelFamily& family_of(Backend backend, const json& request) {
  const std::string name = request.at("family").get<std::string>();
  const KernelFamily* family = find_family(backend, name);
  if (!family) throw std::runtime_error(fmt::format("no family '{}' in this build", name));
  return *family;
}

json compile_reply(const CodeCache& cache, const json& request) {
  try {
    const DeviceInfo device = device_from_message(request.at("device"));
    const Problem problem = Problem::parse(request.at("problem").get<std::string>());
    const Configuration configuration =
        Configuration::from_json(request.at("configuration").get<std::string>());
    const KernelFamily& family = family_of(device.backend, request);
    return {{"code",
             to_message(cache.get_or_compile(family.instantiate(problem, configuration, device), device))}};
  } catch (const TrialError& error) {
    return {{"status", error.status()}, {"reason", error.what()}};
  } catch (const std::exception& error) {
    return {{"status", "internal_error"}, {"reason", error.what()}};
  }
}

Candidate candidate_of(Backend backend, const json& request) {
  Candidate candidate;
  candidate.family = &family_of(backend, request);
  candidate.configuration = Configuration::from_json(request.at("configuration").get<std::string>());
  if (request.contains("code")) candidate.code = code_from_message(request.at("code"));
  return candidate;
}

json measure_reply(Measurement& measurement, Backend backend, const json& request) {
  try {
    if (request.contains("evaluate")) {
      const json& body = request.at("evaluate");
      return {{"trial", to_message(measurement.evaluate(candidate_of(backend, body),
                                                        timing_options_from_message(body.at("timing"))))}};
    }
    const json& body = request.at("time");
    return {{"timing", to_message(measurement.time(candidate_of(backend, body),
                                                   timing_options_from_message(body.at("timing"))))}};
  } catch (const TrialError& error) {
    return {{"status", error.status()}, {"reason", error.what()}};
  } catch (const std::exception& error) {
    return {{"status", "internal_error"}, {"reason", error.what()}};
  }
}

}  // namespace

int run_compile_worker() {
  const CodeCache cache;
  MessageReader reader(STDIN_FILENO);
  while (auto request = reader.wait()) {
    json reply = compile_reply(cache, *request);
    reply["id"] = request->at("id");
    if (!send_message(STDIN_FILENO, reply)) break;
  }
  return 0;
}

int run_measure_worker() {
  MessageReader reader(STDIN_FILENO);
  const auto setup = reader.wait();
  if (!setup) return 0;
  std::unique_ptr<Device> device;
  std::unique_ptr<Measurement> measurement;
  try {
    device = open_device(setup->at("device").get<std::string>());
    measurement =
        std::make_unique<Measurement>(*device, Problem::parse(setup->at("problem").get<std::string>()),
                                      setup->at("seed").get<std::uint64_t>());
  } catch (const std::exception& error) {
    send_message(STDIN_FILENO, {{"error", error.what()}});
    return 1;
  }
  if (!send_message(STDIN_FILENO, json::object())) return 0;
  while (auto request = reader.wait()) {
    if (!send_message(STDIN_FILENO, measure_reply(*measurement, device->info().backend, *request))) break;
  }
  return 0;
}

}  // namespace knobwise
