// The C interface: statuses and messages instead of exceptions.
#include <gmock/gmock.h>

#include "include/knobwise/knobwise.h"
#include "tests/runtime/fixture.h"

namespace knobwise::test {
namespace {

using ::testing::HasSubstr;

class CApiTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    setenv("KNOBWISE_CACHE", (folder() / "code").c_str(), 1);
  }
};

TEST_F(CApiTest, PlansPreparesAndRuns) {
  const char* line = "conv1d n=1 c=2 w=34 k=4 s=3";
  const std::string path =
      database("tuned.db", {{.problem = line, .configuration = fake_configuration(8, 64)}}).string();
  const char* databases[] = {path.c_str()};
  knobwise_dispatcher* dispatcher = nullptr;
  ASSERT_EQ(knobwise_open(databases, 1, "cpu", &dispatcher), KNOBWISE_OK);
  knobwise_plan* plan = nullptr;
  ASSERT_EQ(knobwise_plan_create(dispatcher, line, nullptr, &plan), KNOBWISE_OK);
  ASSERT_EQ(knobwise_refresh(dispatcher), KNOBWISE_OK);
  knobwise_close(dispatcher);
  EXPECT_THAT(knobwise_plan_description(plan), HasSubstr("\"provenance\":\"exact\""));
  EXPECT_EQ(knobwise_plan_workspace_bytes(plan), 64u);

  Operands operands(Problem::parse(line));
  const knobwise_const_buffer weights = {operands.parameters[0].data(), operands.parameters[0].size() * 4};
  ASSERT_EQ(knobwise_plan_prepare(plan, &weights, 1, nullptr), KNOBWISE_OK);
  const knobwise_const_buffer input = {operands.input.data(), knobwise_plan_input_bytes(plan)};
  const knobwise_buffer output = {operands.output.data(), knobwise_plan_output_bytes(plan)};
  ASSERT_EQ(knobwise_plan_run(plan, input, output, {nullptr, 0}, nullptr), KNOBWISE_OK);
  EXPECT_LT(largest_error(operands), 1e-5);

  std::vector<float> scratch(16);
  EXPECT_EQ(knobwise_plan_run(plan, input, output, {scratch.data(), 64}, nullptr), KNOBWISE_OK);
  EXPECT_EQ(knobwise_plan_run(plan, input, output, {scratch.data(), 32}, nullptr), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("workspace"));
  knobwise_plan_destroy(plan);
}

TEST_F(CApiTest, MistakesAreStatusesWithMessages) {
  knobwise_dispatcher* dispatcher = nullptr;
  EXPECT_EQ(knobwise_open(nullptr, 1, "cpu", &dispatcher), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(knobwise_open(nullptr, 0, "abacus", &dispatcher), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("abacus"));
  EXPECT_EQ(dispatcher, nullptr);
  EXPECT_EQ(knobwise_open(nullptr, 0, "cpu", nullptr), KNOBWISE_INVALID_ARGUMENT);
  ASSERT_EQ(knobwise_open(nullptr, 0, "cpu", &dispatcher), KNOBWISE_OK);

  knobwise_plan* plan = nullptr;
  EXPECT_EQ(knobwise_plan_create(dispatcher, nullptr, nullptr, &plan), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(knobwise_plan_create(dispatcher, "conv2d n=oops", nullptr, &plan), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("oops"));
  knobwise_requirement requirement = {};
  requirement.allow = "exact";
  EXPECT_EQ(knobwise_plan_create(dispatcher, "conv1d n=1 c=1 w=8 k=1 s=1", &requirement, &plan),
            KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(knobwise_plan_prepare(nullptr, nullptr, 0, nullptr), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(knobwise_plan_run(nullptr, {}, {}, {}, nullptr), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(knobwise_plan_description(nullptr), nullptr);
  EXPECT_EQ(knobwise_plan_input_bytes(nullptr), 0u);
  knobwise_plan_destroy(nullptr);
  knobwise_close(nullptr);

  ASSERT_EQ(knobwise_plan_create(dispatcher, "conv1d n=1 c=1 w=8 k=1 s=1", nullptr, &plan), KNOBWISE_OK);
  EXPECT_EQ(knobwise_plan_run(plan, {}, {}, {}, nullptr), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("prepare"));
  // Nothing beyond the one that the problem has is read.
  const knobwise_const_buffer parameter = {nullptr, 0};
  for (const std::size_t count : {std::size_t{0}, std::size_t{2}, std::size_t{1} << 40, ~std::size_t{0}}) {
    EXPECT_EQ(knobwise_plan_prepare(plan, &parameter, count, nullptr), KNOBWISE_INVALID_ARGUMENT);
    EXPECT_THAT(knobwise_last_error(), HasSubstr("the problem has 1"));
  }
  EXPECT_EQ(knobwise_plan_prepare(plan, nullptr, 1, nullptr), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("null pointer"));
  knobwise_plan_destroy(plan);
  knobwise_close(dispatcher);
}

TEST_F(CApiTest, AMessageThatIsCutEndsWithAWholeCharacter) {
  for (std::size_t shift = 0; shift < 3; ++shift) {
    std::string device(shift, 'x');
    for (int i = 0; i < 700; ++i) device += "\u20ac";  // of three bytes
    knobwise_dispatcher* dispatcher = nullptr;
    EXPECT_EQ(knobwise_open(nullptr, 0, device.c_str(), &dispatcher), KNOBWISE_INVALID_ARGUMENT);
    const std::string message = knobwise_last_error();
    ASSERT_GT(message.size(), 1000u);
    ASSERT_LT(message.size(), 1024u);
    EXPECT_TRUE(message.ends_with("\u20ac")) << message.substr(message.size() - 4);
  }
}

TEST_F(CApiTest, NotesSayWhatIsWrongWithTheDatabases) {
  const std::string missing = (folder() / "missing.db").string(), empty = database("empty.db", {}).string();
  const char* databases[] = {missing.c_str(), empty.c_str()};
  knobwise_dispatcher* dispatcher = nullptr;
  ASSERT_EQ(knobwise_open(databases, 2, "cpu", &dispatcher), KNOBWISE_OK);
  char text[2048] = "?";
  EXPECT_EQ(knobwise_notes(dispatcher, text, sizeof text), KNOBWISE_OK);
  EXPECT_THAT(text,
              testing::MatchesRegex("no database at .*missing.db.*\n.*empty.db holds no results yet.*"));
  EXPECT_EQ(knobwise_notes(dispatcher, text, 3), KNOBWISE_OK);
  EXPECT_STREQ(text, "no");
  EXPECT_EQ(knobwise_notes(dispatcher, nullptr, 0), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(knobwise_notes(nullptr, text, sizeof text), KNOBWISE_INVALID_ARGUMENT);
  knobwise_close(dispatcher);
  ASSERT_EQ(knobwise_open(nullptr, 0, "cpu", &dispatcher), KNOBWISE_OK);
  EXPECT_EQ(knobwise_notes(dispatcher, text, sizeof text), KNOBWISE_OK);
  EXPECT_STREQ(text, "");
  knobwise_close(dispatcher);
}

TEST_F(CApiTest, AKernelThatFailsAtWorkIsADeviceError) {
  const char* line = "conv1d n=1 c=2 w=34 k=4 s=3";
  const std::string path =
      database("tuned.db", {{.problem = line, .configuration = fake_configuration(8, 0, true, 0, "throws")}})
          .string();
  const char* databases[] = {path.c_str()};
  knobwise_dispatcher* dispatcher = nullptr;
  ASSERT_EQ(knobwise_open(databases, 1, "cpu", &dispatcher), KNOBWISE_OK);
  knobwise_plan* plan = nullptr;
  ASSERT_EQ(knobwise_plan_create(dispatcher, line, nullptr, &plan), KNOBWISE_OK);
  Operands operands(Problem::parse(line));
  const knobwise_const_buffer weights = {operands.parameters[0].data(), operands.parameters[0].size() * 4};
  ASSERT_EQ(knobwise_plan_prepare(plan, &weights, 1, nullptr), KNOBWISE_OK);
  EXPECT_EQ(knobwise_plan_run(plan, {operands.input.data(), knobwise_plan_input_bytes(plan)},
                              {operands.output.data(), knobwise_plan_output_bytes(plan)}, {}, nullptr),
            KNOBWISE_DEVICE_ERROR);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("the kernel throws"));
  knobwise_plan_destroy(plan);
  knobwise_close(dispatcher);
}

}  // namespace
}  // namespace knobwise::test
