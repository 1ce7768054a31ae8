// docs/schema.md: every query in it runs and answers, and every table, view and column is described.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

std::string document() {
  std::ifstream file("docs/schema.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> sql_blocks(const std::string& text) {
  const std::string opening = "```sql\n", closing = "```";
  std::vector<std::string> blocks;
  for (std::size_t start = 0; (start = text.find(opening, start)) != std::string::npos;) {
    start += opening.size();
    const std::size_t end = text.find(closing, start);
    blocks.push_back(text.substr(start, end - start));
    start = end;
  }
  return blocks;
}

class SchemaDocumentTest : public FolderTest {
 protected:
  /// Two environments and family versions, two precision modes, failures, a baseline.
  void SetUp() override {
    FolderTest::SetUp();
    Store store = Store::open(file("tuned.db"), Store::Mode::read_write);
    Ids ids = intern_all(store);
    for (int i = 0; i < 20; ++i) store.insert_trial(varied_trial(ids, i));
    store.insert_trial(failed_trial(ids, 20, TrialStatus::crashed, "illegal address"));
    ids.environment = store.intern_environment(environment("590.1"));
    ids.family = store.intern_family(family("ffff"));
    ids.session = store.begin_session(session(ids));
    for (int i = 0; i < 5; ++i) store.insert_trial(varied_trial(ids, i));
    store.finish_session(ids.session, SessionState::finished);
    store.put_baseline({.device = ids.device,
                        .environment = ids.environment,
                        .problem = ids.problem,
                        .name = "cuDNN",
                        .timing = timing(500),
                        .errors = errors(),
                        .started = utc_now()});
  }

  static TrialRecord varied_trial(const Ids& ids, int number) {
    const bool tf32 = number % 2 == 1;
    TrialRecord record = trial(ids, number, 100 + number * (tf32 ? 1 : 3));
    record.configuration = "{\"precision\":\"" + std::string(tf32 ? "tf32" : "fp32") +
                           "\",\"tile\":" + std::to_string(number) + "}";
    record.precision = tf32 ? "tf32" : "fp32";
    if (tf32) record.errors = errors(0.2, 3e-4);
    record.resources.stack_bytes = number % 3 == 0 ? 16 : 0;
    record.resources.occupancy = 0.5;
    record.compile_seconds = 0.4;
    record.verify_seconds = 0.1;
    record.measure_seconds = 0.2;
    return record;
  }
};

TEST_F(SchemaDocumentTest, EveryQueryAnswers) {
  const std::vector<std::string> blocks = sql_blocks(document());
  ASSERT_GE(blocks.size(), 10u);
  SQLite::Database database(file("tuned.db").string());
  for (const std::string& sql : blocks) {
    SCOPED_TRACE(sql);
    SQLite::Statement query(database, sql);
    EXPECT_TRUE(query.executeStep());
  }
}

TEST_F(SchemaDocumentTest, TheInfluenceOfAKnobIsWhatTheTrialsSay) {
  SQLite::Database database(file("tuned.db").string());
  for (const std::string& sql : sql_blocks(document())) {
    if (sql.find("influence") == std::string::npos) continue;
    SQLite::Statement query(database, sql);
    ASSERT_TRUE(query.executeStep());
    EXPECT_EQ(query.getColumn("knob").getString(), "tile");
    // Times run from 100 (fp32, tile 0) to 154 (fp32, tile 18).
    EXPECT_DOUBLE_EQ(query.getColumn("influence").getDouble(), 1.54);
    return;
  }
  FAIL() << "the document has no query for the influence of knobs";
}

TEST_F(SchemaDocumentTest, EveryTableViewAndColumnIsDescribed) {
  const std::string text = document();
  SQLite::Database database(file("tuned.db").string());
  SQLite::Statement columns(database,
                            "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS c "
                            "WHERE m.type IN ('table', 'view')");
  int seen = 0;
  while (columns.executeStep()) {
    ++seen;
    const std::string table = columns.getColumn(0).getString(), column = columns.getColumn(1).getString();
    EXPECT_NE(text.find(table), std::string::npos) << table;
    EXPECT_NE(text.find('`' + column + '`'), std::string::npos) << table << '.' << column;
  }
  EXPECT_GT(seen, 100);
}

TEST_F(SchemaDocumentTest, EveryStatusIsDescribed) {
  const std::string text = document();
  for (const TrialStatus status : all_trial_statuses()) {
    EXPECT_NE(text.find('`' + std::string(to_string(status)) + '`'), std::string::npos) << to_string(status);
  }
}

}  // namespace
}  // namespace knobwise::testing
