#include "tests/tuner/fault_family.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>

#include "kernels/device.h"

namespace knobwise::test {
namespace {

// Statements of `scale(x, w, y, n)`; y has n elements.
std::string body(const std::string& fault) {
  const std::string right = "for (long long i = 0; i < n; ++i) y[i] = x[i] * w[0];";
  if (fault == "wrong") return "for (long long i = 0; i < n; ++i) y[i] = x[i] * w[0] + 0.5f;";
  if (fault == "nan") return right + " y[n / 2] = 0.0f / (y[0] - y[0]);";
  if (fault == "unwritten") return "for (long long i = 0; i < n - 1; ++i) y[i] = x[i] * w[0];";
  if (fault == "reads_behind") return "for (long long i = 0; i < n; ++i) y[i] = x[i] * w[0] + 0 * x[n];";
  if (fault == "reads_before") return "for (long long i = 0; i < n; ++i) y[i] = x[i] * w[0] + 0 * x[-1];";
  if (fault == "writes_behind") return right + " y[n] = 1;";
  if (fault == "writes_before") return right + " y[-1] = 1;";
  if (fault == "crashes") return "*(volatile int*)16 = 1;";
  if (fault == "exits") return "exit(3);";
  if (fault == "loops") return "for (volatile int i = 0;; i = i + 1) {}";
  return right;
}

}  // namespace

const std::vector<std::string>& FaultFamily::faults() {
  static const std::vector<std::string> all = {
      "none",         "does_not_compile", "compiler_hangs", "wrong",   "nan",   "unwritten", "reads_behind",
      "reads_before", "writes_behind",    "writes_before",  "crashes", "exits", "loops"};
  return all;
}

std::optional<std::string> FaultFamily::unsupported_reason(const Problem& problem, const DeviceInfo&) const {
  if (problem.rank == 1 && problem.c == 1 && problem.k == 1 && problem.fan_in() == 1 &&
      problem.epilogue.empty())
    return {};
  return "only scales one channel";
}

std::string_view FaultFamily::space_json() const {
  static const std::string json = [] {
    std::string values;
    for (const std::string& fault : faults())
      values += fmt::format("{}\"{}\"", values.empty() ? "" : ", ", fault);
    return fmt::format(
        R"({{"General": {{"BenchmarkName": "faulty"}}, "ConfigurationSpace": {{"TuningParameters": [
        {{"Name": "fault", "Type": "string", "Values": [{}], "Default": "none"}},
        {{"Name": "variant", "Type": "int", "Values": [0, 1, 2], "Default": 0}},
        {{"Name": "precision", "Type": "string", "Values": ["fp32"], "Default": "fp32"}}]}}}})",
        values);
  }();
  return json;
}

KernelInstance FaultFamily::instantiate(const Problem& problem, const Configuration& configuration,
                                        const DeviceInfo&) const {
  const std::string fault = configuration.text("fault");
  KernelInstance instance;
  const char* fifo = std::getenv("KNOBWISE_TEST_FIFO");
  if (fault == "compiler_hangs")
    instance.source += fmt::format("#include \"{}\"\n", fifo ? fifo : "/nonexistent");
  if (fault == "does_not_compile") instance.source += "this is no C++;\n";
  instance.source += fmt::format(
      "extern \"C\" void exit(int);\n"
      "extern \"C\" void scale(void* const* arguments, long long) {{\n"
      "  const float* x = (const float*)arguments[0];\n  const float* w = (const float*)arguments[1];\n"
      "  float* y = (float*)arguments[2];\n  const long long n = {};\n  (void)x, (void)w, (void)y, "
      "(void)n;\n  {}\n}}\n"
      "// variant {}\n",
      problem.output_extents().elements(), body(fault), configuration.integer("variant"));
  instance.run.push_back(
      {"scale", {1, 1, 1}, {1, 1, 1}, 0, {{Slot::input, 0}, {Slot::parameter, 0}, {Slot::output, 0}}});
  return instance;
}

std::optional<std::string> SpinFamily::unsupported_reason(const Problem& problem,
                                                          const DeviceInfo& device) const {
  return FaultFamily().unsupported_reason(problem, device);
}

std::string_view SpinFamily::space_json() const {
  static std::string json;
  const char* kinds = std::getenv("KNOBWISE_TEST_KINDS");
  json = fmt::format(
      R"({{"General": {{"BenchmarkName": "spinning"}}, "ConfigurationSpace": {{"TuningParameters": [
      {{"Name": "kind", "Type": "string", "Values": {}}},
      {{"Name": "variant", "Type": "int", "Values": [0, 1, 2, 3]}},
      {{"Name": "precision", "Type": "string", "Values": ["fp32"]}}]}}}})",
      kinds ? kinds : R"(["spins"])");
  return json;
}

KernelInstance SpinFamily::instantiate(const Problem& problem, const Configuration& configuration,
                                       const DeviceInfo&) const {
  const std::string kind = configuration.text("kind");
  const char* marker = std::getenv("KNOBWISE_TEST_MARKER");
  KernelInstance instance;
  instance.source = fmt::format(
      "#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
      "#include <time.h>\n#include <unistd.h>\n"
      "static double now() {{ timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * "
      "t.tv_nsec; }}\n"
      "extern \"C\" void spin(void* const* arguments, long long) {{\n"
      "  const double end = now() + {};\n"
      "  const char* marker = \"{}\";\n"
      "  if ({} && access(marker, F_OK) == 0) exit(3);\n"
      "  if ({} && (access(marker, F_OK) != 0 || {})) {{\n"
      "    close(open(marker, O_CREAT | O_WRONLY, 0600));\n    kill(getpid(), SIGKILL);\n  }}\n"
      "  if ({}) {{\n    FILE* log = fopen(marker, \"a\");\n    timespec t;\n"
      "    clock_gettime(CLOCK_REALTIME, &t);\n"
      "    fprintf(log, \"%lld {}\\n\", t.tv_sec * 1000000LL + t.tv_nsec / 1000);\n    fclose(log);\n  }}\n"
      "  while ({} || now() < end) {{}}\n"
      "  for (long long i = 0; i < {}; ++i)\n"
      "    ((float*)arguments[2])[i] = ((const float*)arguments[0])[i] * ((const "
      "float*)arguments[1])[0];\n}}\n"
      "// variant {}\n",
      kind == "slow" ? 60e-3 : 3e-3, marker ? marker : "", kind == "fails_later", kind.starts_with("killed"),
      kind == "killed", kind == "logs", configuration.integer("variant"), kind == "loops",
      problem.output_extents().elements(), configuration.integer("variant"));
  instance.run.push_back(
      {"spin", {1, 1, 1}, {1, 1, 1}, 0, {{Slot::input, 0}, {Slot::parameter, 0}, {Slot::output, 0}}});
  return instance;
}

namespace {

// Runs a function that spins for some milliseconds.
class LibraryAlgorithm : public Executable {
 public:
  LibraryAlgorithm(std::int64_t elements, std::int64_t milliseconds)
      : elements_(elements), milliseconds_(milliseconds) {}
  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override { return 0; }
  void prepare(const Buffers&, Stream) override {}
  void run(const Buffers& buffers, Stream) override {
    const auto end = std::chrono::steady_clock::now() + milliseconds_;
    const float* x = static_cast<const float*>(buffers.input);
    const float w = *static_cast<const float*>(buffers.parameters[0]);
    for (std::int64_t i = 0; i < elements_; ++i) static_cast<float*>(buffers.output)[i] = x[i] * w;
    while (std::chrono::steady_clock::now() < end) {
    }
  }

 private:
  std::int64_t elements_;
  std::chrono::milliseconds milliseconds_;
};

}  // namespace

std::optional<std::string> LibraryFamily::unsupported_reason(const Problem& problem,
                                                             const DeviceInfo& device) const {
  return FaultFamily().unsupported_reason(problem, device);
}

std::string_view LibraryFamily::space_json() const {
  return R"({"General": {"BenchmarkName": "library"}, "ConfigurationSpace": {"TuningParameters": [
      {"Name": "algorithm", "Type": "int", "Values": "[v for v in range(30)]", "Default": 0},
      {"Name": "precision", "Type": "string", "Values": ["fp32"], "Default": "fp32"}]
}
})";
}

std::unique_ptr<Executable> LibraryFamily::create_builtin(const Problem& problem,
                                                          const Configuration& configuration, Device&) const {
  return std::make_unique<LibraryAlgorithm>(problem.output_extents().elements(),
                                            3 + configuration.integer("algorithm"));
}

void register_test_families() {
  static const FaultFamily faulty;
  static const SpinFamily spinning;
  static const LibraryFamily library;
  static const bool registered =
      (register_family(faulty), register_family(spinning), register_family(library), true);
  (void)registered;
}

}  // namespace knobwise::test
