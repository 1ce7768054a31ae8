#include "include/knobwise/dispatcher.h"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "runtime/core.h"
#include "search_spaces/user_error.h"

namespace knobwise {

namespace {

constexpr std::size_t kHandles = 16;

// Each thread has its place, so that threads that ask at once count their references in different cache
// lines.
std::size_t place_of_thread() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t place = next.fetch_add(1, std::memory_order_relaxed) % kHandles;
  return place;
}

}  // namespace

struct Dispatcher::Impl {
  struct alignas(64) Handle {
    std::shared_ptr<runtime_detail::Core> core;
  };

  explicit Impl(DispatcherOptions options)
      : core(std::make_shared<runtime_detail::Core>(std::move(options))) {
    // Each with a count of its own that holds one reference of `core`.
    for (Handle& handle : handles) handle.core = {core.get(), [core = core](runtime_detail::Core*) {}};
  }
  const std::shared_ptr<runtime_detail::Core>& handle() const { return handles[place_of_thread()].core; }

  std::shared_ptr<runtime_detail::Core> core;
  std::array<Handle, kHandles> handles;
};

Dispatcher::Dispatcher(DispatcherOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;
Dispatcher::~Dispatcher() = default;

Plan Dispatcher::plan(const Problem& problem, const Requirement& requirement) {
  if (const auto* choice = impl_->core->find(problem, requirement)) return Plan(impl_->handle(), choice);
  return plan(PlanKey(problem, requirement));
}

Plan Dispatcher::plan(const PlanKey& key) {
  if (const Problem& problem = key.problem(); !problem.user.empty())
    throw UserError(
        fmt::format("'{}' is a user's own kernel: look its configuration up with 'knobwise best', "
                    "and compile and launch it in the application",
                    problem.to_string()));
  return Plan(impl_->handle(), impl_->core->choose(key));
}

Plan Dispatcher::plan(std::string_view problem_line, const Requirement& requirement) {
  return plan(Problem::parse(problem_line), requirement);
}

void Dispatcher::refresh() {
  impl_->core->refresh();
}
const DeviceInfo& Dispatcher::device() const {
  return impl_->core->info();
}
std::vector<std::string> Dispatcher::notes() const {
  return impl_->core->notes();
}

std::string_view version() {
  return KNOBWISE_VERSION;
}

}  // namespace knobwise
