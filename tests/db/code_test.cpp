// Stored machine code: compressed, deduplicated, and never handed out damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "db/code_image.h"
#include "search_spaces/user_error.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

class CodeTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    store_.emplace(Store::open(file("tuned.db"), Store::Mode::read_write));
    ids_ = intern_all(*store_);
    for (int i = 0; i < 3; ++i) store_->insert_trial(trial(ids_, i, 10 + i));
  }
  std::string sql(const std::string& text) { return column(file("tuned.db"), text); }
  void change(const std::string& text) {
    SQLite::Database(file("tuned.db").string(), SQLite::OPEN_READWRITE).exec(text);
  }

  std::optional<Store> store_;
  Ids ids_;
};

TEST_F(CodeTest, ComesBackAsItWas) {
  std::mt19937 random(3);
  std::string image(100'000, '\0');
  for (char& byte : image) byte = static_cast<char>(random() % 7);
  store_->put_code(1, image);
  EXPECT_EQ(store_->code(1), image);
  EXPECT_EQ(store_->code(2), std::nullopt);
  EXPECT_EQ(store_->counts().codes, 1);
  EXPECT_LT(std::stoi(sql("SELECT length(image) FROM machine_code")), 50'000);
}

TEST_F(CodeTest, EqualCodeIsStoredOnceAndGoesWithItsLastTrial) {
  store_->put_code(1, "same");
  store_->put_code(2, "same");
  store_->put_code(3, "other");
  EXPECT_EQ(sql("SELECT count(*) FROM machine_code"), "2\n");
  store_->put_code(3, "same");
  EXPECT_EQ(sql("SELECT count(*) FROM machine_code"), "1\n");
  EXPECT_EQ(store_->code(3), "same");
}

TEST_F(CodeTest, AnyFlippedBitIsFound) {
  const std::string image = "a kernel of some kind, with a body that can be compressed compressed compressed";
  const std::string frame = compress_image(image), hash = content_hash(image);
  const auto bytes = static_cast<std::int64_t>(image.size());
  ASSERT_EQ(decompress_image(frame, bytes, hash), image);
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto found = decompress_image(damaged, bytes, hash);
    EXPECT_TRUE(!found || *found == image) << bit;
  }
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_EQ(decompress_image(frame.substr(0, size), bytes, hash), std::nullopt) << size;
  EXPECT_EQ(decompress_image(frame, bytes + 1, hash), std::nullopt);
  EXPECT_EQ(decompress_image(frame, std::int64_t{1} << 40, hash), std::nullopt);
  EXPECT_EQ(decompress_image(frame, bytes, content_hash("another kernel")), std::nullopt);
}

TEST_F(CodeTest, DamagedCodeIsNeverHandedOut) {
  store_->put_code(1, "machine code");
  for (const char* damage :
       {"UPDATE machine_code SET image = x'28b52ffd'", "UPDATE machine_code SET image_bytes = 1000000000000",
        "UPDATE machine_code SET hash = '00000000000000000000000000000000'"}) {
    change(damage);
    EXPECT_THROW(store_->code(1), UserError) << damage;
  }
}

TEST_F(CodeTest, NoCodeAndNoTrialAreDefects) {
  EXPECT_THROW(store_->put_code(1, ""), std::invalid_argument);
  EXPECT_THROW(store_->put_code(99, "x"), std::invalid_argument);
  EXPECT_EQ(sql("SELECT count(*) FROM machine_code"), "0\n");
}

}  // namespace
}  // namespace knobwise::testing
