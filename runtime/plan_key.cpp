#include "include/knobwise/dispatcher.h"
#include "runtime/key_bytes.h"

namespace knobwise {

PlanKey::PlanKey(Problem problem, Requirement requirement)
    : problem_(std::move(problem)), requirement_(std::move(requirement)) {
  runtime_detail::KeyBytes bytes;
  runtime_detail::append_key(problem_, requirement_, bytes);
  bytes_ = fmt::to_string(bytes);
  hash_ = runtime_detail::hash_of(bytes_);
}

}  // namespace knobwise
