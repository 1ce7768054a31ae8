#include "tuner/evaluation/measuring_worker.h"

#include <fmt/format.h>

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

// A process that dies while it opens the device may have been killed from outside; one that does so every
// time has a reason.
void MeasuringWorker::wait_until_open() {
  constexpr int kTries = 4;
  constexpr double kOpenLimitSeconds = 300;  // allocating and filling tens of gigabytes takes its time
  for (int tries = 1;; ++tries) {
    const auto reply = process_->reply_within(kOpenLimitSeconds);
    if (reply && reply->contains("error")) throw UserError(reply->at("error").get<std::string>());
    if (reply) return;
    if (!process_->closed())
      throw std::runtime_error(fmt::format("device {}: no answer in {} s", device_, kOpenLimitSeconds));
    const std::string how = process_->reap().how;
    if (tries == kTries) {
      throw std::runtime_error(fmt::format(
          "device {}: the measuring process ended at its start, {} times: {}", device_, kTries, how));
    }
    launch();
  }
}

}  // namespace knobwise
