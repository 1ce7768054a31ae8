#include "search_spaces/knob_order.h"

#include <algorithm>
#include <utility>

namespace knobwise {
namespace {

class KnobOrder {
 public:
  explicit KnobOrder(const std::vector<std::size_t>& sizes)
      : sizes_(sizes), is_placed_(sizes.size(), false) {}

  std::vector<std::uint32_t> order(std::vector<const Program*> pending) {
    while (!pending.empty()) {
      const auto next =
          std::min_element(pending.begin(), pending.end(), [&](const Program* a, const Program* b) {
            return std::pair(!is_connected(*a), cost(*a)) < std::pair(!is_connected(*b), cost(*b));
          });
      place_knobs_of(**next);
      pending.erase(next);
    }
    for (std::uint32_t knob = 0; knob < sizes_.size(); ++knob) place(knob);
    return order_;
  }

 private:
  bool is_connected(const Program& constraint) const {
    return std::any_of(constraint.slots().begin(), constraint.slots().end(),
                       [&](std::uint32_t knob) { return is_placed_[knob]; });
  }

  // How many choices it takes to complete the constraint.
  double cost(const Program& constraint) const {
    double product = 1;
    for (const std::uint32_t knob : constraint.slots()) {
      if (!is_placed_[knob]) product *= static_cast<double>(sizes_[knob]);
    }
    return product;
  }

  // The knob with the most values last: its values are checked together, without a state for each.
  void place_knobs_of(const Program& constraint) {
    std::vector<std::uint32_t> knobs = constraint.slots();
    std::stable_sort(knobs.begin(), knobs.end(), [&](auto a, auto b) { return sizes_[a] < sizes_[b]; });
    for (const std::uint32_t knob : knobs) place(knob);
  }

  void place(std::uint32_t knob) {
    if (is_placed_[knob]) return;
    is_placed_[knob] = true;
    order_.push_back(knob);
  }

  const std::vector<std::size_t>& sizes_;
  std::vector<bool> is_placed_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

std::vector<std::uint32_t> order_knobs(const std::vector<std::size_t>& sizes,
                                       const std::vector<const Program*>& constraints) {
  return KnobOrder(sizes).order(constraints);
}

}  // namespace knobwise
