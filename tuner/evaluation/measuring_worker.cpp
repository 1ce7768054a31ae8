#include "tuner/evaluation/measuring_worker.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "search_spaces/user_error.h"

namespace knobwise {

void MeasuringWorker::launch() {
  process_.reset();  // before the new one: both may not fit the device
  process_.emplace(WorkerProcess::start(executable_, "measure"));
  nlohmann::json setup = problem_;
  setup["device"] = device_;
  process_->send(setup);
}

void MeasuringWorker::fail_to_open(const std::string& how) const {
  if (!problem_.contains("kernel"))
    throw std::runtime_error(fmt::format("device {}: the measuring process {}", device_, how));
  throw UserError(fmt::format(
      "{}: while the kernel ran that the results are compared with, the measuring process {}; correct it, or "
      "give ReferenceArguments or a ReferenceKernel",
      std::filesystem::path(problem_.at("kernel").at("file").get<std::string>()).filename().string(), how));
}

// A process that dies while it opens the device may have been killed from outside; one that does so every
// time has a reason.
void MeasuringWorker::wait_until_open() {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 4;
  constexpr std::chrono::seconds kOpenLimit{300};  // allocating and filling tens of gigabytes takes its time
  constexpr double kSliceSeconds = 0.1;
  for (int tries = 1;; ++tries) {
    const Clock::time_point limit = Clock::now() + kOpenLimit;
    std::optional<nlohmann::json> reply;
    while (!(reply = process_->reply_within(kSliceSeconds)) && !process_->closed()) {
      if (interrupted_ && *interrupted_)
        throw UserError(fmt::format("interrupted before device {} was ready; nothing was tried", device_));
      if (Clock::now() > limit) fail_to_open(fmt::format("gave no answer in {} s", kOpenLimit.count()));
    }
    if (reply && reply->contains("error")) throw UserError(reply->at("error").get<std::string>());
    if (reply) return;
    const std::string how = process_->reap().how;
    if (tries == kTries) fail_to_open(fmt::format("ended at its start, {} times: {}", kTries, how));
    launch();
  }
}

}  // namespace knobwise
