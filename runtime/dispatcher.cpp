#include "include/knobwise/dispatcher.h"

#include "runtime/core.h"

namespace knobwise {

struct Dispatcher::Impl {
  std::shared_ptr<runtime_detail::Core> core;
};

Dispatcher::Dispatcher(DispatcherOptions options)
    : impl_(std::make_unique<Impl>(Impl{std::make_shared<runtime_detail::Core>(std::move(options))})) {}
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;
Dispatcher::~Dispatcher() = default;

Plan Dispatcher::plan(const Problem& problem, const Requirement& requirement) {
  if (const auto* choice = impl_->core->find(problem, requirement)) return Plan(impl_->core, choice);
  return plan(PlanKey(problem, requirement));
}

Plan Dispatcher::plan(const PlanKey& key) {
  return Plan(impl_->core, impl_->core->choose(key));
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
