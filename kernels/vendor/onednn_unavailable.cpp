// Stands in for onednn.cpp where oneDNN's headers were not found at build time.
#include "kernels/vendor/onednn.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

class UnavailableFamily : public KernelFamily {
 public:
  std::string_view name() const override { return "onednn"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem&, const DeviceInfo&) const override {
    return "this program was built without oneDNN's headers; install libdnnl-dev and build again";
  }
  std::string_view space_json() const override {
    return R"({"General": {"BenchmarkName": "onednn"}, "ConfigurationSpace": {"TuningParameters": [
        {"Name": "format", "Type": "string", "Values": ["any"]}]}})";
  }
  std::string source_hash() const override { return "onednn-unavailable"; }
  bool builtin() const override { return true; }
};

}  // namespace

const KernelFamily& onednn_family() {
  static const auto& family = never_destroyed(UnavailableFamily());
  return family;
}

}  // namespace knobwise
