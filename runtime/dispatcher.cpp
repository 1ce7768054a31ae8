#include "include/knobwise/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>

#include "runtime/background_tuner.h"
#include "runtime/core.h"
#include "search_spaces/user_error.h"

namespace knobwise {

namespace {

constexpr std::size_t kHandles = 64;

// Each thread has its place, so that threads that ask at once count their references in different cache
// lines.
std::size_t place_of_thread() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t place = next.fetch_add(1, std::memory_order_relaxed) % kHandles;
  return place;
}

using TunerOwner = std::unique_ptr<runtime_detail::BackgroundTuner, runtime_detail::EndTuner>;

TunerOwner make_tuner(const DispatcherOptions& options, const DeviceInfo& device) {
  const TuneOnMiss& tune = options.tune_on_miss;
  if (tune.seconds == 0) return nullptr;
  if (!(tune.seconds > 0 && std::isfinite(tune.seconds)) ||
      !(tune.limit_seconds >= 0 && std::isfinite(tune.limit_seconds)))
    throw UserError("tune_on_miss: give seconds above 0, and no negative limit");
  if (options.databases.empty())
    throw UserError("tune_on_miss: name a database that takes the results, the first of `databases`");
  return TunerOwner(new runtime_detail::BackgroundTuner({.options = tune,
                                                         .database = options.databases.front(),
                                                         .code_cache = options.code_cache,
                                                         .device = device,
                                                         .log = !options.on_new_plan}));
}

// Relative paths are those of now: an application may change its folder later.
DispatcherOptions with_absolute_paths(DispatcherOptions options) {
  const auto fix = [](std::filesystem::path& path) {
    std::error_code error;
    if (auto absolute = std::filesystem::absolute(path, error); !path.empty() && !error)
      path = std::move(absolute);
  };
  if (options.code_cache.empty()) options.code_cache = CodeCache::default_folder();
  for (auto* paths : {&options.databases, &options.trusted}) std::ranges::for_each(*paths, fix);
  fix(options.code_cache);
  fix(options.tune_on_miss.executable);
  return options;
}

// Problems and requirements are plain values, which an application can fill in with what no parser lets pass.
void require_parsed(const Problem& problem, const Requirement& requirement) {
  if (!problem.user.empty())
    throw UserError(
        fmt::format("'{}' is a user's own kernel: look its configuration up with 'knobwise best', "
                    "and compile and launch it in the application",
                    problem.to_string()));
  const auto parses = [&] { return Problem::parse(problem.to_string()) == problem; };
  if (problem.rank < 1 || problem.rank > 3 || !parses())
    throw UserError("the problem is none that Problem::parse() makes; write it as a line, and parse that");
  if (requirement.accuracy) AccuracyRequirement::parse(requirement.accuracy->to_string());
}

// Holds one reference of the core. Its own count of references lies in front of it, in the same allocation:
// the alignment keeps that count off the lines of all others, adjacent-line prefetch included.
struct alignas(128) Anchor {
  std::shared_ptr<runtime_detail::Core> core;
};

}  // namespace

struct [[gnu::visibility("hidden")]] Dispatcher::Impl {
  explicit Impl(const DispatcherOptions& options)
      : core(std::make_shared<runtime_detail::Core>(options)), tuner(make_tuner(options, core->info())) {
    for (auto& handle : handles) handle = {std::make_shared<Anchor>(core), core.get()};
  }
  const std::shared_ptr<runtime_detail::Core>& handle() const {
    return handles[place_of_thread()];
  }

  // Of a key that the core does not know yet.
  const runtime_detail::Choice* decide(const PlanKey& key);

  std::shared_ptr<runtime_detail::Core> core;
  TunerOwner tuner;  // null: no tuning
  std::array<std::shared_ptr<runtime_detail::Core>, kHandles> handles;
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(std::make_unique<Impl>(with_absolute_paths(std::move(options)))) {}
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;
Dispatcher::~Dispatcher() = default;

Dispatcher::Impl& Dispatcher::impl() const {
  if (!impl_) throw UserError("this dispatcher was moved to another one; use that one");
  return *impl_;
}

Plan Dispatcher::plan(const Problem& problem, const Requirement& requirement) {
  if (const auto* choice = impl().core->find(problem, requirement)) return Plan(impl().handle(), choice);
  return plan(PlanKey(problem, requirement));
}

const runtime_detail::Choice* Dispatcher::Impl::decide(const PlanKey& key) {
  const Problem& problem = key.problem();
  const Requirement& requirement = key.requirement();
  const auto ask_tuner = [&] {
    if (tuner && requirement.allow.contains(Provenance::exact))
      tuner->ask(problem, runtime_detail::effective_accuracy(problem, requirement));
  };
  try {
    const runtime_detail::Choice* choice = core->choose(key);
    if (choice->provenance != Provenance::exact) ask_tuner();
    return choice;
  } catch (const UserError&) {
    ask_tuner();
    throw;
  }
}

Plan Dispatcher::plan(const PlanKey& key) {
  if (const auto* choice = impl().core->find(key)) return Plan(impl().handle(), choice);
  require_parsed(key.problem(), key.requirement());
  return Plan(impl().handle(), impl().decide(key));
}

Plan Dispatcher::plan(std::string_view problem_line, const Requirement& requirement) {
  return plan(Problem::parse(problem_line), requirement);
}

void Dispatcher::refresh() {
  impl().core->refresh();
  if (impl().tuner) impl().tuner->forget_failures();
}
TuningStatus Dispatcher::tuning(const Problem& problem, const Requirement& requirement) const {
  require_parsed(problem, requirement);
  if (!impl().tuner) return {};
  return impl().tuner->status(problem, runtime_detail::effective_accuracy(problem, requirement));
}
const DeviceInfo& Dispatcher::device() const {
  return impl().core->info();
}
std::vector<std::string> Dispatcher::notes() const {
  return impl().core->notes();
}

std::string_view version() {
  return KNOBWISE_VERSION;
}

}  // namespace knobwise
