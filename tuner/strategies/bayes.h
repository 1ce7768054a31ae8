#pragma once

#include <memory>
#include <optional>
#include <random>
#include <unordered_map>

#include "tuner/strategies/encoding.h"
#include "tuner/strategies/gaussian_process.h"
#include "tuner/strategies/strategy.h"
#include "tuner/strategies/trial_book.h"

namespace knobwise {

class BayesStrategy : public Strategy {
 public:
  BayesStrategy(const BoundSpace& space, std::uint64_t seed);
  std::vector<std::uint64_t> ask(std::size_t count) override;
  void tell(const Observation& observation) override;

 private:
  std::optional<std::uint64_t> next();
  void rebuild();
  void update();
  Eigen::VectorXd targets() const;

  BoundSpace space_;
  Encoding encoding_;
  TrialBook book_;
  std::mt19937_64 random_;
  KernelParameters parameters_;
  std::vector<std::uint64_t> candidates_;
  std::unordered_map<std::uint64_t, std::size_t> candidate_of_;
  std::optional<CandidatePosterior> posterior_;
  std::vector<std::uint64_t> rows_;
  std::size_t next_fit_ = 0;
};

}  // namespace knobwise
