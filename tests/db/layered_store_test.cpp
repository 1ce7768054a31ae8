#include "db/layered_store.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "search_spaces/user_error.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

class LayeredStoreTest : public FolderTest {
 protected:
  /// A closed database with one trial of `line` that takes `time_us`, preceded by unrelated rows so that
  /// equal things have other ids in other files.
  void fill(const std::string& name, const std::string& line, double time_us, int unrelated,
            const std::string& hash = "a1b2") {
    Store store = Store::open(file(name), Store::Mode::read_write);
    for (int i = 0; i < unrelated; ++i) {
      store.intern_problem(problem("unrelated " + std::to_string(i)));
      store.intern_family(family(std::to_string(i)));
    }
    Ids ids = intern_all(store);
    ids.problem = store.intern_problem(problem(line));
    ids.family = store.intern_family(family(hash));
    store.insert_trial(trial(ids, 0, time_us));
  }

  LayeredStore open(const std::vector<std::string>& names) {
    std::vector<Store> layers;
    for (const std::string& name : names) {
      layers.push_back(
          Store::open(file(name), layers.empty() ? Store::Mode::read_write : Store::Mode::read_only));
    }
    return LayeredStore(std::move(layers));
  }
};

TEST_F(LayeredStoreTest, TheFirstLayerWithAnAnswerWins) {
  fill("user.db", "conv A", 20, 3);
  fill("site.db", "conv A", 10, 0);
  fill("shipped.db", "conv B", 5, 1);
  const LayeredStore stores = open({"user.db", "site.db", "shipped.db"});
  const auto a = stores.best("conv A", gpu(), allclose_limits());
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->layer, 0u);
  EXPECT_EQ(a->trial.timing->time_us, 20);
  EXPECT_EQ(a->family, family());
  EXPECT_EQ(a->environment, environment());
  EXPECT_EQ(a->device, gpu());
  EXPECT_EQ(stores.best("conv B", gpu(), allclose_limits())->layer, 2u);
  EXPECT_EQ(stores.best("conv C", gpu(), allclose_limits()), std::nullopt);
}

TEST_F(LayeredStoreTest, AStaleLayerIsPassedOver) {
  fill("user.db", "conv A", 20, 0, "0ld");
  fill("shipped.db", "conv A", 30, 2);
  const LayeredStore stores = open({"user.db", "shipped.db"});
  EXPECT_EQ(stores.best("conv A", gpu(), allclose_limits(), {{family()}})->layer, 1u);
}

TEST_F(LayeredStoreTest, TheNearestDeviceAnswersAndSaysHowNearItIs) {
  fill("user.db", "conv A", 20, 0);
  DeviceRecord twin = gpu(), slice = gpu(), stranger = gpu();
  twin.name = "NVIDIA H200 NVL";
  slice.name = "NVIDIA H200 MIG 1g.18gb", slice.multiprocessors = 16, slice.memory_bytes /= 8;
  stranger.architecture = "sm_80";
  const LayeredStore stores = open({"user.db"});
  EXPECT_EQ(stores.best("conv A", gpu(), allclose_limits())->match, DeviceMatch::same_device);
  const auto from_twin = stores.best("conv A", twin, allclose_limits());
  EXPECT_EQ(from_twin->match, DeviceMatch::same_hardware);
  EXPECT_EQ(from_twin->device.name, "NVIDIA H200");
  EXPECT_EQ(stores.best("conv A", slice, allclose_limits())->match, DeviceMatch::same_architecture);
  EXPECT_FALSE(stores.best("conv A", stranger, allclose_limits()).has_value());
}

TEST_F(LayeredStoreTest, AnEqualDeviceInALaterLayerComesBeforeATwinInAnEarlierOne) {
  fill("user.db", "conv A", 20, 0);
  DeviceRecord twin = gpu();
  twin.name = "NVIDIA H200 NVL";
  {
    Store store = Store::open(file("site.db"), Store::Mode::read_write);
    Ids ids = intern_all(store);
    ids.device = store.intern_device(twin);
    ids.problem = store.intern_problem(problem("conv A"));
    store.insert_trial(trial(ids, 0, 30));
  }
  const auto found = open({"user.db", "site.db"}).best("conv A", twin, allclose_limits());
  EXPECT_EQ(found->layer, 1u);
  EXPECT_EQ(found->match, DeviceMatch::same_device);
}

TEST_F(LayeredStoreTest, OnlyTheFirstLayerIsWritten) {
  fill("user.db", "conv A", 20, 0);
  fill("shipped.db", "conv A", 30, 0);
  LayeredStore stores = open({"user.db", "shipped.db"});
  EXPECT_EQ(stores.size(), 2u);
  EXPECT_EQ(stores.writable().path(), file("user.db"));
  EXPECT_TRUE(stores.layer(1).read_only());
  std::vector<Store> only_reading;
  only_reading.push_back(Store::open(file("user.db"), Store::Mode::read_only));
  EXPECT_THROW(LayeredStore(std::move(only_reading)).writable(), UserError);
}

TEST_F(LayeredStoreTest, AWritableLowerLayerOrNoLayerIsADefect) {
  std::vector<Store> layers;
  layers.push_back(Store::in_memory());
  layers.push_back(Store::in_memory());
  EXPECT_THROW(LayeredStore(std::move(layers)), std::invalid_argument);
  EXPECT_THROW(LayeredStore({}), std::invalid_argument);
}

}  // namespace
}  // namespace knobwise::testing
