// Looking for damage.
#include "db/code_image.h"
#include "db/store.h"
#include "db/store_impl.h"

namespace knobwise {
namespace {

constexpr int kMostLines = 100;

class Check {
 public:
  Check(SQLite::Database& database, bool holds_code) : database_(database), holds_code_(holds_code) {}

  std::vector<std::string> run() {
    integrity();
    references();
    if (holds_code_) {
      codes();
      agreement("accuracy marks of trials that are not what their errors say",
                "SELECT count(*) FROM trials AS t LEFT JOIN trial_accuracy AS a ON a.trial = t.id "
                "WHERE t.allclose <> coalesce(a.allclose, 0)");
      agreement("tallies that are not the number of trials",
                "SELECT count(*) FROM (SELECT * FROM tallies EXCEPT SELECT problem, device, count(*), "
                "sum(status <> 'ok') FROM trials GROUP BY problem, device)");
      agreement("problems without their tally",
                "SELECT count(*) FROM (SELECT problem, device FROM trials EXCEPT SELECT problem, device FROM "
                "tallies)");
    }
    return findings_;
  }

 private:
  /// One part of the check; damage that ends it is a finding.
  template <class Body>
  void part(const char* name, Body&& body) {
    try {
      body();
    } catch (const SQLite::Exception& failure) {
      findings_.push_back(fmt::format("{}: {}", name, failure.what()));
    }
  }

  void integrity() {
    part("integrity", [&] {
      SQLite::Statement query(database_, fmt::format("PRAGMA integrity_check({})", kMostLines));
      while (query.executeStep()) {
        const std::string line = query.getColumn(0).getString();
        if (line != "ok") findings_.push_back("integrity: " + line);
      }
    });
  }

  void references() {
    part("references", [&] {
      SQLite::Statement query(
          database_, "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2");
      while (query.executeStep()) {
        findings_.push_back(fmt::format("references: {} rows of {} refer to missing {}",
                                        query.getColumn(2).getInt64(), query.getColumn(0).getString(),
                                        query.getColumn(1).getString()));
      }
    });
  }

  void codes() {
    part("machine code", [&] {
      SQLite::Statement query(database_, "SELECT hash, image_bytes, image FROM machine_code");
      while (query.executeStep()) {
        const std::string hash = query.getColumn(0).getString(), frame = query.getColumn(2).getString();
        if (!decompress_image(frame, query.getColumn(1).getInt64(), hash))
          findings_.push_back(fmt::format("machine code: {} is not what was stored", hash));
      }
    });
  }

  void agreement(const char* what, const char* sql) {
    part("agreement", [&] {
      const std::int64_t number = database_.execAndGet(sql).getInt64();
      if (number > 0) findings_.push_back(fmt::format("agreement: {} {}", number, what));
    });
  }

  SQLite::Database& database_;
  bool holds_code_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> Store::check() const {
  return impl_->guard([&] { return Check(impl_->connection.database, impl_->holds_code()).run(); });
}

}  // namespace knobwise
