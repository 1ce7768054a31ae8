// Searches written as straight-line code that waits for its trials.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <random>
#include <vector>

#include "tuner/strategies/strategy.h"
#include "tuner/strategies/trial_book.h"

namespace knobwise {

/// A Strategy whose search is a coroutine: `co_await evaluate(...)` gives the results of configurations, from
/// memory where they are known. What ask() and tell() promise is kept here, for every such strategy: when the
/// search waits and more proposals are asked for, or when it has ended, random configurations fill in; and a
/// search that goes round among known configurations is given a random one to evaluate now and then.
class ScriptedStrategy : public Strategy {
 public:
  ScriptedStrategy(const BoundSpace& space, std::uint64_t seed);
  ~ScriptedStrategy() override;
  ScriptedStrategy(const ScriptedStrategy&) = delete;
  ScriptedStrategy& operator=(const ScriptedStrategy&) = delete;

  std::vector<std::uint64_t> ask(std::size_t count) final;
  void tell(const Observation& observation) final { book_.record(observation); }

 protected:
  class Script;

  /// What `co_await evaluate(...)` waits on; gives the times, infinite for failures, in order.
  class Evaluation {
   public:
    Evaluation(ScriptedStrategy& owner, std::vector<std::uint64_t> indices)
        : owner_(owner), indices_(std::move(indices)) {}

    bool await_ready();
    void await_suspend(std::coroutine_handle<> script);
    std::vector<double> await_resume() const;

   private:
    ScriptedStrategy& owner_;
    std::vector<std::uint64_t> indices_;
  };

  /// The search; it may run for ever, and every round of it must evaluate something.
  virtual Script search() = 0;

  Evaluation evaluate(std::vector<std::uint64_t> indices) { return {*this, std::move(indices)}; }
  Evaluation evaluate(std::uint64_t index) { return {*this, std::vector<std::uint64_t>(1, index)}; }

  const BoundSpace& space() const { return space_; }
  const TrialBook& book() const { return book_; }
  std::mt19937_64& random() { return random_; }
  /// Uniform in 0 .. bound-1, the same on every platform.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  /// Uniform in [0, 1), the same on every platform.
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::uint64_t random_index() { return random_() % space_.size(); }
  std::vector<std::uint64_t> random_indices(std::size_t count);
  static bool faster(const Observation& a, const Observation& b) { return a.time_us < b.time_us; }
  /// The `count` fastest of evaluated configurations, the fastest first.
  static std::vector<Observation> fastest(const std::vector<std::uint64_t>& indices,
                                          const std::vector<double>& times, std::size_t count);
  /// The neighbours that differ in one knob, in random order.
  std::vector<std::uint64_t> shuffled_neighbours(std::uint64_t index);
  /// A random neighbour that differs in one knob: an open one if there is any, else any, or a random
  /// configuration if it has none. Every knob has the same chance, however many values it has.
  std::uint64_t random_neighbour(std::uint64_t index);
  /// Moves about one knob by a random step; the result may be invalid.
  void mutate(Positions& positions);
  /// The configuration at positions or the nearest valid one; a random neighbour of it if it is not open.
  std::uint64_t repaired(const Positions& positions);
  /// A configuration that takes each knob from either of two; if that gives `one` again, a random step away
  /// from it. Drawn again a few times while it is invalid or not open; repaired if that does not help.
  std::uint64_t mix(std::uint64_t one, std::uint64_t other);

 private:
  /// Moves a knob by d places in its list of values with a chance of about 1/d, so that it needs no scale; a
  /// step beyond an end is not made.
  void step(Positions& positions, std::size_t knob);
  bool waiting() const;
  void advance();

  BoundSpace space_;
  TrialBook book_;
  std::mt19937_64 random_;
  std::vector<std::size_t> choices_;  // the knobs that have more than one value
  std::coroutine_handle<> script_;    // to be resumed when nothing is waited for; null once it ended
  std::coroutine_handle<> owned_;     // destroyed with the strategy
  std::deque<std::uint64_t> wanted_;  // asked for by the script, not yet proposed
  std::vector<std::uint64_t> awaited_;
  std::size_t remembered_ = 0;  // evaluations in a row that were answered from memory
};

/// The coroutine type of a search.
class ScriptedStrategy::Script {
 public:
  struct promise_type {
    Script get_return_object() { return Script{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };

  explicit Script(std::coroutine_handle<> handle) : handle_(handle) {}
  std::coroutine_handle<> handle() const { return handle_; }

 private:
  std::coroutine_handle<> handle_;
};

}  // namespace knobwise
