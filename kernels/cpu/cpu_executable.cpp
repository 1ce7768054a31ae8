#include "kernels/cpu/cpu_executable.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/thread_pool.h"
#include "kernels/launch_arguments.h"

namespace knobwise {
namespace {

struct BoundLaunch {
  CpuModule::Function function;
  long long tasks;
  int threads;
  LaunchArguments::Range arguments;
};

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const KernelInstance& instance, const CompiledCode& code)
      : module_(code.image),
        resources_(code.resources),
        packed_bytes_(instance.packed_bytes),
        workspace_bytes_(instance.workspace_bytes),
        prepare_(bind(instance.prepare)),
        run_(bind(instance.run)) {
    arguments_.shrink();
  }

  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void prepare(const Buffers& buffers, Stream) override { launch_all(prepare_, buffers); }
  void run(const Buffers& buffers, Stream) override { launch_all(run_, buffers); }
  Resources resources() const override { return resources_; }

 private:
  std::vector<BoundLaunch> bind(const std::vector<KernelLaunch>& launches) {
    std::vector<BoundLaunch> bound;
    bound.reserve(launches.size());
    for (const KernelLaunch& launch : launches) {
      const LaunchArguments::Range arguments = arguments_.add(launch);
      bound.push_back({module_.function(launch.function), static_cast<long long>(launch.grid[0]),
                       static_cast<int>(launch.block[0]), arguments});
    }
    return bound;
  }

  void launch_all(const std::vector<BoundLaunch>& launches, const Buffers& buffers) const {
    for (const BoundLaunch& launch : launches) {
      void* arguments[KernelLaunch::kMostArguments];
      arguments_.values(launch.arguments, buffers, arguments);
      ThreadPool::instance().run(launch.function, arguments, launch.tasks, launch.threads);
    }
  }

  CpuModule module_;
  Resources resources_;
  std::size_t packed_bytes_, workspace_bytes_;
  LaunchArguments arguments_;
  std::vector<BoundLaunch> prepare_, run_;
};

}  // namespace

namespace {

// An anonymous file that holds an image until it is loaded.
class ImageFile {
 public:
  explicit ImageFile(const std::string& image) : descriptor_(memfd_create("knobwise-kernel", MFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw TrialError("launch_failed", fmt::format("memfd_create: {}", std::strerror(errno)));
    for (std::size_t written = 0; written < image.size();) {
      const ssize_t count = write(descriptor_, image.data() + written, image.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        close(descriptor_);
        throw TrialError("launch_failed", fmt::format("the code cannot be stored: {}", std::strerror(errno)));
      }
      written += static_cast<std::size_t>(count);
    }
  }
  ~ImageFile() { close(descriptor_); }
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  // A path that no other file of this process had: dlopen() takes two paths of the same text for the same
  // library, and descriptors are used again. The bits of a number say where a step that changes nothing goes.
  std::string path() const {
    static std::atomic<std::uint64_t> files{0};
    std::string path = "/proc/self/fd/";
    for (std::uint64_t bits = ++files; bits > 0; bits >>= 1) path += bits & 1 ? "./" : "/";
    return path + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace

CpuModule::CpuModule(const std::string& image) {
  handle_ = dlopen(ImageFile(image).path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr)
    throw TrialError("launch_failed", fmt::format("the code cannot be loaded: {}", dlerror()));
}

CpuModule::~CpuModule() {
  dlclose(handle_);
}

CpuModule::Function CpuModule::function(const std::string& name) const {
  void* symbol = dlsym(handle_, name.c_str());
  if (symbol == nullptr)
    throw TrialError("launch_failed", fmt::format("the code has no function `{}`", name));
  return reinterpret_cast<Function>(symbol);
}

std::unique_ptr<Executable> load_cpu_executable(const KernelInstance& instance, const CompiledCode& code) {
  return std::make_unique<CpuExecutable>(instance, code);
}

}  // namespace knobwise
