#include "tuner/evaluation/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace knobwise {
namespace {

class Channel : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  void TearDown() override {
    for (int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  void close_sender() {
    close(ends_[0]);
    ends_[0] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

TEST_F(Channel, CarriesMessagesInOrder) {
  MessageReader reader(ends_[1]);
  ASSERT_TRUE(send_message(ends_[0], {{"a", 1}}));
  ASSERT_TRUE(send_message(ends_[0], {{"b", "text"}}));
  EXPECT_EQ(reader.wait(), (nlohmann::json{{"a", 1}}));
  EXPECT_EQ(reader.wait(), (nlohmann::json{{"b", "text"}}));
}

TEST_F(Channel, CarriesBinaryLargerThanTheSocketsBuffer) {
  std::vector<std::uint8_t> image(5 << 20);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  std::thread sender([&] {
    EXPECT_TRUE(send_message(ends_[0], {{"image", nlohmann::json::binary(image)}}));
  });
  MessageReader reader(ends_[1]);
  const auto message = reader.wait();
  sender.join();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->at("image").get_binary(), image);
}

TEST_F(Channel, AMessageCutOffIsNoMessage) {
  const std::string half("\x40\0\0\0\0\0\0\0abc", 11);
  ASSERT_EQ(write(ends_[0], half.data(), half.size()), static_cast<ssize_t>(half.size()));
  close_sender();
  MessageReader reader(ends_[1]);
  EXPECT_FALSE(reader.wait());
}

TEST_F(Channel, AnAbsurdLengthEndsTheStream) {
  const std::string header(8, '\xff');
  ASSERT_EQ(write(ends_[0], header.data(), header.size()), 8);
  MessageReader reader(ends_[1]);
  EXPECT_FALSE(reader.wait());
}

TEST_F(Channel, SendingToAClosedEndFailsWithoutASignal) {
  close(ends_[1]);
  ends_[1] = -1;
  EXPECT_FALSE(send_message(ends_[0], {{"a", 1}}));
}

}  // namespace
}  // namespace knobwise
