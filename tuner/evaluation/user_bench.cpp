// The data of a user's kernel and its reference.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kernels/code_cache.h"
#include "kernels/parallel_for.h"
#include "kernels/user/user_kernel.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/precision_bound.h"
#include "tuner/evaluation/test_bench.h"

namespace knobwise {
namespace {

// The data are what the file says they are: one set, recorded as the uniform one.
constexpr Distribution kDistributions[] = {Distribution::uniform};
constexpr char kPoison = '\xff';

using Content = std::vector<char>;

ErrorAccumulator compare(const Content& output, const Content& reference, const ElementType& type) {
  constexpr std::int64_t kBlock = 1 << 16;
  const auto components = static_cast<std::int64_t>(output.size() / type.component_bytes);
  ErrorAccumulator total;
  std::mutex mutex;
  parallel_for((components + kBlock - 1) / kBlock, 0, [&](std::int64_t block) {
    ErrorAccumulator mine;
    const std::int64_t end = std::min(components, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i)
      mine.add(type.load(output.data(), i), type.load(reference.data(), i));
    const std::lock_guard lock(mutex);
    total.merge(mine);
  });
  return total;
}

class UserBench : public TestBench {
 public:
  UserBench(Device& device, const UserKernel& kernel, std::uint64_t seed)
      : TestBench(device), kernel_(kernel) {
    for (const UserArgument& argument : kernel.arguments()) {
      arrays_.push_back({&argument, nullptr, {}, {}});
      if (argument.memory == UserArgument::Memory::scalar) continue;
      Array& array = arrays_.back();
      array.buffer = &add(argument.bytes(), argument.name);
      buffers_.parameters.push_back(array.buffer->data());
      if (argument.overwrites) continue;
      array.content.resize(argument.bytes());
      argument.fill.fill(array.content.data(), argument.type, argument.components(), seed + arrays_.size());
    }
    kernel.references().empty() ? compute_reference() : read_reference();
  }

  std::span<const Distribution> distributions() const override { return kDistributions; }

  void fill(Distribution) override {
    for (const Array& array : arrays_) {
      if (array.buffer == nullptr) continue;
      if (array.argument->overwrites) {
        array.buffer->poison();
      } else {
        device_.upload(array.buffer->data(), array.content.data(), array.content.size());
      }
    }
  }

  ErrorMetrics verify(const OutputTile&) override {
    ErrorAccumulator errors;
    for (const Array& array : arrays_) {
      if (array.argument->output)
        errors.merge(compare(download(array), array.reference, array.argument->type));
    }
    return errors.metrics();
  }

  double error_bound(const Configuration& configuration) const override {
    const Value* precision = configuration.find("precision");
    return precision_bound(precision ? to_string(*precision) : "", DType::f32);
  }

 private:
  struct Array {
    const UserArgument* argument;
    GuardedBuffer* buffer;  // none for a scalar
    Content content;        // to begin with; empty where the kernel overwrites it
    Content reference;      // of an output
  };

  Content download(const Array& array) const {
    Content content(array.argument->bytes());
    device_.download(content.data(), array.buffer->data(), content.size());
    return content;
  }

  void read_reference() {
    for (const ReferenceArgument& reference : kernel_.references()) {
      Array& array = arrays_[reference.target];
      array.reference.resize(array.argument->bytes());
      reference.fill.fill(array.reference.data(), array.argument->type, array.argument->components(), 0);
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw UserError(fmt::format(
        "{}: {}, which the results are compared with, {}; correct it, or give ReferenceArguments or "
        "a ReferenceKernel",
        kernel_.file().filename().string(), kernel_.reference_description(), why));
  }

  void compute_reference() {
    try {
      const KernelInstance instance = kernel_.reference_instance(device_.info());
      const CompiledCode code = CodeCache().get_or_compile(instance, device_.info());
      const std::unique_ptr<Executable> executable = device_.load(instance, code);
      fill(Distribution::uniform);
      executable->prepare(buffers_, nullptr);
      executable->run(buffers_, nullptr);
      device_.synchronize();
    } catch (const TrialError& error) {
      fail(fmt::format("fails ({}): {}", error.status(), error.what()));
    }
    if (const GuardedBuffer* buffer = damaged())
      fail(fmt::format("writes outside its {} buffer", buffer->purpose()));
    for (Array& array : arrays_) {
      if (!array.argument->output) continue;
      array.reference = download(array);
      const bool written = std::any_of(array.reference.begin(), array.reference.end(),
                                       [](char byte) { return byte != kPoison; });
      if (!written) fail(fmt::format("writes nothing to {}", array.argument->name));
    }
  }

  const UserKernel& kernel_;
  std::vector<Array> arrays_;
};

}  // namespace

std::unique_ptr<TestBench> make_user_bench(Device& device, const UserKernel& kernel, std::uint64_t seed) {
  return std::make_unique<UserBench>(device, kernel, seed);
}

}  // namespace knobwise
