#include "kernels/cpu_reference.h"

#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/operands.h"
#include "kernels/reference.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(const Problem& problem, int threads) : problem_(problem), threads_(threads) {}

  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(problem_.output_extents().elements()) * sizeof(double);
  }
  void prepare(const Buffers&, Stream) override {}
  void run(const Buffers& buffers, Stream) override {
    double* values = static_cast<double*>(buffers.workspace);
    reference_output(problem_, buffers, values, threads_);
    const std::int64_t elements = problem_.output_extents().elements();
    for (std::int64_t i = 0; i < elements; ++i) store_element(buffers.output, problem_.dtype, i, values[i]);
  }

 private:
  Problem problem_;
  int threads_;
};

class ReferenceFamily : public KernelFamily {
 public:
  std::string_view name() const override { return "reference"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem&, const DeviceInfo&) const override {
    return std::nullopt;
  }
  std::string_view space_json() const override {
    return R"({"General": {"BenchmarkName": "reference"}, "ConfigurationSpace": {"TuningParameters": [
        {"Name": "threads", "Type": "int", "Values": "[device_multiprocessors]"}]}})";
  }
  std::string source_hash() const override { return "reference-1"; }
  bool builtin() const override { return true; }
  std::unique_ptr<Executable> create_builtin(const Problem& problem, const Configuration& configuration,
                                             Device&) const override {
    return std::make_unique<ReferenceExecutable>(problem, static_cast<int>(configuration.integer("threads")));
  }
};

}  // namespace

const KernelFamily& cpu_reference_family() {
  static const auto& family = never_destroyed(ReferenceFamily());
  return family;
}

}  // namespace knobwise
