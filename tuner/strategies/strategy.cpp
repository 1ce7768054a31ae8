#include "tuner/strategies/strategy.h"

#include <fmt/format.h>

#include "search_spaces/user_error.h"
#include "tuner/strategies/exhaustive.h"
#include "tuner/strategies/random.h"

namespace knobwise {

const std::vector<std::pair<std::string, std::string>>& strategy_names() {
  static const std::vector<std::pair<std::string, std::string>> names = {
      {"random", "uniform random sampling without replacement"},
      {"exhaustive", "every configuration, in order"},
  };
  return names;
}

std::unique_ptr<Strategy> make_strategy(std::string_view name, const BoundSpace& space, std::uint64_t seed) {
  if (name == "random") return std::make_unique<RandomStrategy>(space, seed);
  if (name == "exhaustive") return std::make_unique<ExhaustiveStrategy>(space);
  std::string known;
  for (const auto& [known_name, explanation] : strategy_names())
    known += (known.empty() ? "" : ", ") + known_name;
  throw UserError(fmt::format("--strategy: there is no strategy '{}'; choose one of: {}", name, known));
}

}  // namespace knobwise
