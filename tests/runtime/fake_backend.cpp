#include "tests/runtime/fake_backend.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/operands.h"
#include "kernels/reference.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace test {
namespace {

constexpr std::string_view kSpace = R"({
  "General": {"BenchmarkName": "tiled"},
  "ConfigurationSpace": {
    "TuningParameters": [
      {"Name": "tile", "Type": "int", "Values": [1, 2, 4, 8, 16, 32, 64], "Default": 1},
      {"Name": "scratch", "Type": "int", "Values": [0, 64, 4096], "Default": 0},
      {"Name": "deterministic", "Type": "bool", "Values": [true, false], "Default": true},
      {"Name": "error", "Type": "float", "Values": [0.0, 0.0005, 0.5], "Default": 0.0},
      {"Name": "fault", "Type": "string", "Values": ["none", "wrong", "throws", "does_not_compile"],
       "Default": "none"}],
    "Conditions": [{"Parameters": ["tile"], "Expression": "ow % tile == 0"}]}})";

// Packs by copying the weights, so that a stale copy shows.
class FakeExecutable : public Executable {
 public:
  FakeExecutable(Problem problem, const Configuration& configuration)
      : problem_(std::move(problem)),
        scratch_(static_cast<std::size_t>(configuration.integer("scratch"))),
        error_(std::get<double>(*configuration.find("error"))),
        fault_(configuration.text("fault")) {}

  std::size_t packed_bytes() const override {
    return static_cast<std::size_t>(problem_.parameters()[0].elements()) * sizeof(float);
  }
  std::size_t workspace_bytes() const override { return scratch_; }
  void prepare(const Buffers& buffers, Stream) override {
    ++machine().prepares;
    std::memcpy(buffers.packed, buffers.parameters[0], packed_bytes());
  }
  void run(const Buffers& buffers, Stream) override {
    ++machine().runs;
    if (fault_ == "throws") throw TrialError("launch_failed", "the kernel throws");
    if (scratch_ > 0) std::memset(buffers.workspace, 0x5A, scratch_);
    Buffers packed = buffers;
    packed.parameters[0] = buffers.packed;
    std::vector<double> result(static_cast<std::size_t>(problem_.output_extents().elements()));
    reference_output(problem_, packed, result.data(), 1);
    float* output = static_cast<float*>(buffers.output);
    for (std::size_t i = 0; i < result.size(); ++i) {
      output[i] = static_cast<float>(result[i] * (1 + error_) + (fault_ == "wrong" ? 1.0 : 0.0));
    }
  }

 private:
  Problem problem_;
  std::size_t scratch_;
  double error_;
  std::string fault_;
};

class HostBuffer : public DeviceBuffer {
 public:
  explicit HostBuffer(std::size_t bytes)
      : bytes_(bytes), data_(std::aligned_alloc(64, (bytes + 63) / 64 * 64)) {}
  ~HostBuffer() override { std::free(data_); }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_;
};

class FakeDevice : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, std::string_view) override {
    return std::make_unique<HostBuffer>(bytes);
  }
  void upload(void* device, const void* host, std::size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void fill_bytes(void* device, unsigned char value, std::size_t bytes) override {
    std::memset(device, value, bytes);
  }
  void synchronize() override {}
  void fill_operand(void* device, DType dtype, std::int64_t elements, const OperandFill& fill) override {
    fill_host(device, dtype, elements, fill);
  }
  ErrorMetrics verify(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                      std::uint64_t seed) override {
    ++machine().verifications;
    return verify_host(problem, buffers, tile, seed);
  }
  std::unique_ptr<Executable> load(const KernelInstance&, const CompiledCode& code) override {
    // The code is its source: "problem line\nconfiguration".
    const std::size_t end = code.image.find('\n');
    if (end == std::string::npos) throw TrialError("load_failed", "this is no code");
    return std::make_unique<FakeExecutable>(Problem::parse(code.image.substr(0, end)),
                                            Configuration::from_json(code.image.substr(end + 1)));
  }
  Timing time(Executable&, const Buffers&, const TimingOptions&) override { return {}; }

 private:
  DeviceInfo info_ = machine().info;
};

}  // namespace

Configuration fake_configuration(std::int64_t tile, std::int64_t scratch, bool deterministic, double error,
                                 const std::string& fault) {
  return Configuration({{"tile", tile},
                        {"scratch", scratch},
                        {"deterministic", deterministic},
                        {"error", error},
                        {"fault", fault}});
}

std::optional<std::string> FakeFamily::unsupported_reason(const Problem& problem, const DeviceInfo&) const {
  if (!supported) return "switched off";
  if (problem.dtype != DType::f32) return "only f32";
  return std::nullopt;
}

std::string_view FakeFamily::space_json() const {
  return kSpace;
}

KernelInstance FakeFamily::instantiate(const Problem& problem, const Configuration& configuration,
                                       const DeviceInfo&) const {
  KernelInstance instance;
  instance.source = problem.to_string() + "\n" + configuration.to_json();
  instance.workspace_bytes = static_cast<std::size_t>(configuration.integer("scratch"));
  return instance;
}

std::unique_ptr<Executable> FakeFamily::create_builtin(const Problem& problem,
                                                       const Configuration& configuration, Device&) const {
  return std::make_unique<FakeExecutable>(problem, configuration);
}

FakeMachine& machine() {
  static FakeMachine fake;
  return fake;
}

void FakeMachine::reset() {
  info = DeviceInfo{};
  info.vendor = "Test";
  info.name = "Test Card A";
  info.architecture = "test-64";
  info.multiprocessors = 8;
  info.memory_bytes = std::int64_t{16} << 30;
  info.l2_bytes = 1 << 20;
  compiler_version = "testc 1.0";
  for (FakeFamily* family : {&tiled, &vendor, &reference}) {
    family->hash = "v1";
    family->supported = true;
    family->hash_questions = 0;
  }
  compile_options = "testc -O2";
  compiles = verifications = prepares = runs = version_questions = 0;
}

}  // namespace test

const std::vector<const KernelFamily*>& families(Backend backend) {
  static const std::vector<const KernelFamily*> cpu = {&test::machine().tiled, &test::machine().vendor,
                                                       &test::machine().reference};
  static const std::vector<const KernelFamily*> none;
  return backend == Backend::cpu ? cpu : none;
}

const KernelFamily* find_family(Backend backend, std::string_view name) {
  for (const KernelFamily* family : families(backend)) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

CompiledCode compile(const KernelInstance& instance, const DeviceInfo&) {
  if (test::machine().compiler_version.empty()) throw TrialError("compile_failed", "there is no compiler");
  if (instance.source.find("does_not_compile") != std::string::npos)
    throw TrialError("compile_failed", "error: this does not compile");
  ++test::machine().compiles;
  return {.image = instance.source, .resources = {}, .seconds = 0.001};
}

std::string compile_options(const DeviceInfo&) {
  return test::machine().compile_options;
}

std::string compiler_version(Backend) {
  ++test::machine().version_questions;
  return test::machine().compiler_version;
}

std::vector<DeviceInfo> list_devices(std::vector<std::string>*) {
  return {test::machine().info};
}

std::unique_ptr<Device> open_device(std::string_view name) {
  if (name != "cpu" && name != "best") {
    throw UserError(fmt::format("device '{}' is not there; use cpu", name));
  }
  return std::make_unique<test::FakeDevice>();
}

void register_family(const KernelFamily&) {
  throw std::logic_error("the families of this backend are fixed");
}

}  // namespace knobwise
