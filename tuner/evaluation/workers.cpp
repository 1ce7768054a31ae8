#include "tuner/evaluation/workers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/code_cache.h"
#include "kernels/cpu/temporary_directory.h"
#include "kernels/device.h"
#include "kernels/family.h"
#include "kernels/user/user_kernel.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/channel.h"
#include "tuner/evaluation/measurement.h"
#include "tuner/evaluation/messages.h"

namespace knobwise {
namespace {

using nlohmann::json;

// The user's kernel of a request, loaded and registered by the first one; null if it has none.
const UserKernel* user_kernel(const json& request) {
  static std::unique_ptr<UserKernel> kernel;
  if (!request.contains("kernel") || kernel) return kernel.get();
  const std::string file = request.at("kernel").at("file").get<std::string>();
  auto loaded =
      UserKernel::load(file, problem_size(Problem::parse(request.at("problem").get<std::string>())));
  if (loaded->source_hash() != request.at("kernel").at("hash").get<std::string>())
    throw UserError(
        fmt::format("{}: its files changed during the session; run the same command again", file));
  kernel = std::move(loaded);
  register_family(*kernel);
  return kernel.get();
}

const KernelFamily& family_of(Backend backend, const json& request) {
  const std::string name = request.at("family").get<std::string>();
  const KernelFamily* family = find_family(backend, name);
  if (!family) throw std::runtime_error(fmt::format("no family '{}' in this build", name));
  return *family;
}

// A configuration that fails is an answer; what would fail for all of them is an error of the session.
json compile_reply(const CodeCache& cache, const json& request) {
  try {
    user_kernel(request);
  } catch (const UserError& error) {
    return {{"error", error.what()}};
  }
  try {
    const DeviceInfo device = device_from_message(request.at("device"));
    const Problem problem = Problem::parse(request.at("problem").get<std::string>());
    const Configuration configuration =
        Configuration::from_json(request.at("configuration").get<std::string>());
    const KernelInstance instance =
        family_of(device.backend, request).instantiate(problem, configuration, device);
    try {
      return {{"code", to_message(cache.get_or_compile(instance, device))}};
    } catch (const UserError& error) {
      return {{"error", error.what()}};
    }
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

// Asks the session to stop everything else that uses the processors.
void wait_for_quiet(MessageReader& reader) {
  if (!send_message(STDIN_FILENO, {{"quiet", true}}) || !reader.wait()) std::exit(0);  // it has gone
}

json measure_reply(Measurement& measurement, Backend backend, const json& request, MessageReader& reader) {
  try {
    if (request.contains("evaluate")) {
      const json& body = request.at("evaluate");
      const auto quiet = [&] {
        if (body.at("quiet").get<bool>()) wait_for_quiet(reader);
      };
      return {
          {"trial", to_message(measurement.evaluate(candidate_of(backend, body),
                                                    timing_options_from_message(body.at("timing")), quiet))}};
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
  // Behind the session and what measures: a device must not wait for the processor.
  constexpr int kNiceness = 5;
  (void)!nice(kNiceness);  // on top of the session's own
  remove_abandoned_directories();
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
    const Problem problem = Problem::parse(setup->at("problem").get<std::string>());
    const auto seed = setup->at("seed").get<std::uint64_t>();
    const UserKernel* kernel = user_kernel(*setup);
    device = open_device(setup->at("device").get<std::string>());
    measurement = std::make_unique<Measurement>(
        *device, problem,
        kernel ? make_user_bench(*device, *kernel, seed) : make_convolution_bench(*device, problem, seed));
  } catch (const std::exception& error) {
    send_message(STDIN_FILENO, {{"error", error.what()}});
    return 1;
  }
  if (!send_message(STDIN_FILENO, json::object())) return 0;
  while (auto request = reader.wait()) {
    if (!send_message(STDIN_FILENO, measure_reply(*measurement, device->info().backend, *request, reader)))
      break;
  }
  return 0;
}

}  // namespace knobwise
