#include <bit>

#include "include/knobwise/dispatcher.h"
#include "runtime/hash.h"

namespace knobwise {
namespace runtime_detail {
namespace {

// Every field into one word, mixed well after each (the finaliser of splitmix64).
class Mixer {
 public:
  void add(std::uint64_t value) {
    state_ += value + 0x9E3779B97F4A7C15ull;
    state_ = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9ull;
    state_ = (state_ ^ (state_ >> 27)) * 0x94D049BB133111EBull;
    state_ ^= state_ >> 31;
  }
  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(const std::optional<double>& value) {
    add(static_cast<std::uint64_t>(value.has_value()));
    if (value) add(*value);
  }
  void add(const std::array<std::int64_t, 3>& values) {
    for (std::int64_t value : values) add(value);
  }
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::uint64_t hash_of(const Problem& p, const Requirement& requirement) {
  Mixer mixer;
  mixer.add(static_cast<std::uint64_t>(p.rank) | static_cast<std::uint64_t>(p.bias) << 8 |
            static_cast<std::uint64_t>(p.dtype) << 16 | static_cast<std::uint64_t>(p.layout) << 24 |
            static_cast<std::uint64_t>(requirement.deterministic) << 32 |
            static_cast<std::uint64_t>(requirement.allow_stale) << 33 |
            static_cast<std::uint64_t>(requirement.allow.bits()) << 34);
  mixer.add(p.n);
  mixer.add(p.c);
  mixer.add(p.k);
  mixer.add(p.groups);
  for (const auto* values : {&p.in, &p.filter, &p.stride, &p.pad, &p.dilation}) mixer.add(*values);
  for (const EpilogueStep& step : p.epilogue) {
    mixer.add(static_cast<std::uint64_t>(step.op) | static_cast<std::uint64_t>(step.axis) << 8 |
              static_cast<std::uint64_t>(step.affine) << 16);
    mixer.add(step.groups);
    for (double number : step.numbers) mixer.add(number);
  }
  if (requirement.accuracy) {
    mixer.add(requirement.accuracy->max_abs);
    mixer.add(requirement.accuracy->rel_fro);
    mixer.add(requirement.accuracy->frac_outside);
  }
  if (requirement.max_workspace_bytes)
    mixer.add(static_cast<std::uint64_t>(*requirement.max_workspace_bytes) + 1);
  return mixer.state();
}

}  // namespace runtime_detail

PlanKey::PlanKey(Problem problem, Requirement requirement)
    : problem_(std::move(problem)),
      requirement_(std::move(requirement)),
      hash_(runtime_detail::hash_of(problem_, requirement_)) {}

}  // namespace knobwise
