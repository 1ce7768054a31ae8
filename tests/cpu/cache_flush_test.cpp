// Emptying the caches: what a kernel reads next comes from memory, unchanged.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/cpu/cache_flush.h"
#include "tests/cpu/harness.h"

namespace knobwise {
namespace {

using Method = CacheFlush::Method;

constexpr std::size_t kLine = 64, kLines = 2048;  // 128 KB: all of it fits the caches of one core

/// Lines that lead from one to the next in a random order, which no prefetcher foresees.
class Chain {
 public:
  Chain() : memory_(kLines * kLine) {
    std::vector<std::size_t> order(kLines);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (std::size_t i = 0; i < kLines; ++i) *line(order[i]) = line(order[(i + 1) % kLines]);
  }

  /// Nanoseconds for each line of one walk along all.
  double walk() const {
    const auto begin = std::chrono::steady_clock::now();
    void* at = *line(0);
    for (std::size_t i = 0; i < kLines; ++i) at = *static_cast<void**>(at);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(at, *line(0));
    return time.count() / kLines;
  }

 private:
  void** line(std::size_t i) const {
    return reinterpret_cast<void**>(static_cast<char*>(memory_.data()) + i * kLine);
  }
  HostBuffer memory_;
};

class FlushTest : public ::testing::TestWithParam<Method> {
 protected:
  void SetUp() override {
    if (GetParam() == Method::lines && CacheFlush::best_method() != Method::lines)
      GTEST_SKIP() << "needs a processor with clflushopt";
  }
};

// Whatever disturbs a walk makes it slower, so that the fastest counts on both sides.
TEST_P(FlushTest, WhatWasInTheCachesComesFromMemory) {
  const Chain chain;
  CacheFlush flush(cpu().info(), GetParam());
  double warm = std::numeric_limits<double>::infinity(), cold = warm;
  for (int i = 0; i < 20; ++i) {
    chain.walk();
    warm = std::min(warm, chain.walk());
    flush.run();
    cold = std::min(cold, chain.walk());
  }
  RecordProperty("warm_ns", std::to_string(warm));
  RecordProperty("cold_ns", std::to_string(cold));
  EXPECT_GT(cold, 3 * warm);
}

TEST_P(FlushTest, LosesNothingThatWasWritten) {
  CacheFlush flush(cpu().info(), GetParam());
  const HostBuffer odd(3 * kLine + 5), huge((std::size_t{3} << 20) + 1);
  for (const HostBuffer* buffer : {&odd, &huge}) std::memset(buffer->data(), 0x5a, buffer->bytes());
  { const HostBuffer gone(std::size_t{8} << 20); }
  flush.run();
  for (const HostBuffer* buffer : {&odd, &huge}) {
    const char* begin = static_cast<const char*>(buffer->data());
    EXPECT_TRUE(std::all_of(begin, begin + buffer->bytes(), [](char c) { return c == 0x5a; }));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, FlushTest, ::testing::Values(Method::lines, Method::stream),
                         [](const auto& method) {
                           return std::string(method.param == Method::lines ? "Lines" : "Stream");
                         });

TEST(HostBuffers, AreVisitedWhileTheyLive) {
  const auto lives = [](const HostBuffer* wanted) {
    bool found = false;
    HostBuffer::for_each([&](const HostBuffer& buffer) { found |= &buffer == wanted; });
    return found;
  };
  auto buffer = std::make_unique<HostBuffer>(100);
  const HostBuffer* const address = buffer.get();
  EXPECT_TRUE(lives(address));
  buffer.reset();
  EXPECT_FALSE(lives(address));
}

}  // namespace
}  // namespace knobwise
