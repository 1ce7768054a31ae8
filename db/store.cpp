// Opening, what things are, sessions and counts; trials are in store_trials.cpp.
#include "db/store.h"

#include <algorithm>

#include "db/identifiers.h"
#include "db/migrations.h"
#include "db/store_impl.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr const char* kFindDevice =
    "SELECT id FROM devices WHERE backend = ? AND vendor = ? AND name = ? AND architecture = ? "
    "AND multiprocessors = ? AND memory_gib = (? + 536870912) / 1073741824 AND l2_bytes = ? "
    "AND shared_memory_per_block = ?";
constexpr const char* kFindEnvironment =
    "SELECT id FROM environments WHERE driver_version = ? AND toolkit_version = ? AND compiler = ? "
    "AND knobwise_version = ? AND os = ?";
constexpr const char* kFindProblem = "SELECT id FROM problems WHERE line = ?";
constexpr const char* kFindFamily =
    "SELECT id FROM families WHERE backend = ? AND name = ? AND source_hash = ?";

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

int Store::latest_version() {
  return latest_schema_version();
}

Store Store::open(const std::filesystem::path& path, Mode mode) {
  if (mode == Mode::read_only) return open_to_read(path, std::chrono::milliseconds(kBusyTimeoutMs));
  return Store(std::unique_ptr<Impl>(
      new Impl{.path = path, .read_only = false, .connection = open_writable(path), .statements = {}}));
}

Store Store::open_to_read(const std::filesystem::path& path, std::chrono::milliseconds patience) {
  Store store(
      std::unique_ptr<Impl>(new Impl{.path = path,
                                     .read_only = true,
                                     .connection = open_read_only(path, static_cast<int>(patience.count())),
                                     .statements = {}}));
  if (store.version() != latest_version()) store.require_readable();
  return store;
}

Store Store::in_memory() {
  return Store(std::unique_ptr<Impl>(
      new Impl{.path = {}, .read_only = false, .connection = open_in_memory(), .statements = {}}));
}

void Store::require_readable() const {
  try {
    const auto prepare = [this]<class... Records>() {
      (impl_->prepare(fmt::format("SELECT id, {} FROM {}", column_names<Records>().names, kTable<Records>)),
       ...);
    };
    prepare.operator()<DeviceRecord, EnvironmentRecord, ProblemRecord, FamilyRecord, SessionRecord,
                       TrialRecord, BaselineRecord>();
  } catch (const SQLite::Exception& failure) {
    throw UserError(
        fmt::format("database '{}' has schema version {}, which this build (version {}) cannot read: use a "
                    "newer knobwise ({})",
                    impl_->name(), version(), latest_version(), failure.what()));
  }
}

const std::filesystem::path& Store::path() const {
  return impl_->path;
}
bool Store::read_only() const {
  return impl_->read_only;
}
int Store::version() const {
  return impl_->connection.version;
}

void Store::at_one_moment(const std::function<void()>& read) const {
  impl_->guard([&] {
    SQLite::Transaction snapshot(impl_->connection.database);
    read();
    snapshot.commit();
  });
}

std::optional<std::int64_t> Store::find_device(const DeviceRecord& device) const {
  return impl_->guard([&] {
    return impl_->find(kFindDevice, device.backend, device.vendor, device.name, device.architecture,
                       device.multiprocessors, device.memory_bytes, device.l2_bytes,
                       device.shared_memory_per_block);
  });
}

std::optional<std::int64_t> Store::find_environment(const EnvironmentRecord& environment) const {
  return impl_->guard([&] {
    return impl_->find(kFindEnvironment, environment.driver_version, environment.toolkit_version,
                       environment.compiler, environment.knobwise_version, environment.os);
  });
}

std::optional<std::int64_t> Store::find_problem(const std::string& line) const {
  return impl_->guard([&] { return impl_->find(kFindProblem, line); });
}

std::optional<std::int64_t> Store::find_family(const FamilyRecord& family) const {
  return impl_->guard(
      [&] { return impl_->find(kFindFamily, family.backend, family.name, family.source_hash); });
}

std::int64_t Store::intern_device(const DeviceRecord& device) {
  return impl_->intern(device, [&] { return find_device(device); });
}
void Store::update_device_extra(std::int64_t device, const std::string& extra) {
  impl_->guard([&] { impl_->update("device", "UPDATE devices SET extra = ? WHERE id = ?", extra, device); });
}
std::int64_t Store::intern_environment(const EnvironmentRecord& environment) {
  return impl_->intern(environment, [&] { return find_environment(environment); });
}
std::int64_t Store::intern_problem(const ProblemRecord& problem) {
  return impl_->intern(problem, [&] { return find_problem(problem.line); });
}
std::int64_t Store::intern_family(const FamilyRecord& family) {
  return impl_->intern(family, [&] { return find_family(family); });
}

DeviceRecord Store::device(std::int64_t id) const {
  return impl_->guard([&] { return impl_->row<DeviceRecord>(id); });
}
EnvironmentRecord Store::environment(std::int64_t id) const {
  return impl_->guard([&] { return impl_->row<EnvironmentRecord>(id); });
}
ProblemRecord Store::problem(std::int64_t id) const {
  return impl_->guard([&] { return impl_->row<ProblemRecord>(id); });
}
FamilyRecord Store::family(std::int64_t id) const {
  return impl_->guard([&] { return impl_->row<FamilyRecord>(id); });
}

std::vector<Stored<DeviceRecord>> Store::devices() const {
  return impl_->guard([&] { return impl_->rows<DeviceRecord>(); });
}
std::vector<Stored<EnvironmentRecord>> Store::environments() const {
  return impl_->guard([&] { return impl_->rows<EnvironmentRecord>(); });
}
std::vector<Stored<ProblemRecord>> Store::problems() const {
  return impl_->guard([&] { return impl_->rows<ProblemRecord>(); });
}
std::vector<Stored<FamilyRecord>> Store::families() const {
  return impl_->guard([&] { return impl_->rows<FamilyRecord>(); });
}

std::vector<std::pair<Stored<DeviceRecord>, DeviceMatch>> Store::devices_like(
    const DeviceRecord& device) const {
  std::vector<std::pair<Stored<DeviceRecord>, DeviceMatch>> matches;
  for (Stored<DeviceRecord>& candidate : devices()) {
    const DeviceMatch match = match_devices(candidate.record, device);
    if (match != DeviceMatch::different) matches.emplace_back(std::move(candidate), match);
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
  return matches;
}

std::int64_t Store::begin_session(const SessionRecord& session) {
  return impl_->guard([&] { return impl_->insert(session).value(); });
}

void Store::finish_session(std::int64_t id, SessionState state) {
  if (state == SessionState::running)
    throw std::invalid_argument("a session does not finish in the state running");
  impl_->guard([&] {
    impl_->update("session", "UPDATE sessions SET state = ?, finished = ? WHERE id = ?", state, utc_now(),
                  id);
  });
}

void Store::resume_session(std::int64_t id) {
  impl_->guard([&] {
    impl_->update("session", "UPDATE sessions SET state = ?, finished = NULL WHERE id = ?",
                  SessionState::running, id);
  });
}

SessionRecord Store::session(std::int64_t id) const {
  return impl_->guard([&] { return impl_->row<SessionRecord>(id); });
}

std::optional<std::int64_t> Store::find_session(const std::string& uuid) const {
  return impl_->guard([&] { return impl_->find("SELECT id FROM sessions WHERE uuid = ?", uuid); });
}

std::vector<Stored<SessionRecord>> Store::sessions() const {
  return impl_->guard([&] { return impl_->rows<SessionRecord>(); });
}

std::int64_t Store::next_session_order(std::int64_t session) const {
  return impl_->guard([&] {
    return impl_->find("SELECT coalesce(max(session_order) + 1, 0) FROM trials WHERE session = ?", session)
        .value();
  });
}

bool Store::has_results() const {
  return impl_->guard(
      [&] { return impl_->find("SELECT EXISTS (SELECT 1 FROM trials WHERE status = 'ok')") == 1; });
}

StoreCounts Store::counts() const {
  return impl_->guard([&] {
    const auto count = [this](const char* from) {
      return impl_->find(fmt::format("SELECT count(*) FROM {}", from)).value();
    };
    return StoreCounts{.devices = count("devices"),
                       .environments = count("environments"),
                       .problems = count("problems"),
                       .families = count("families"),
                       .sessions = count("sessions"),
                       .trials = count("trials"),
                       .trials_ok = count("trials WHERE status = 'ok'"),
                       .baselines = count("baselines"),
                       .codes = impl_->holds_code() ? count("trial_code") : 0};
  });
}

}  // namespace knobwise
