// The backends behind one set of functions.
#include <fmt/format.h>

#include <charconv>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/device.h"
#include "kernels/family.h"
#include "search_spaces/never_destroyed.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

std::vector<const KernelFamily*>& family_list(Backend backend) {
  static auto& cpu = never_destroyed(std::vector<const KernelFamily*>(cpu_families()));
  static auto& cuda = never_destroyed(std::vector<const KernelFamily*>(cuda_families()));
  return backend == Backend::cpu ? cpu : cuda;
}

}  // namespace

const std::vector<const KernelFamily*>& families(Backend backend) {
  return family_list(backend);
}

const KernelFamily* find_family(Backend backend, std::string_view name) {
  for (const KernelFamily* family : families(backend)) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

void register_family(const KernelFamily& family) {
  std::vector<const KernelFamily*>& list = family_list(family.backend());
  list.insert(list.end() - (list.empty() ? 0 : 1), &family);
}

CompiledCode compile(const KernelInstance& instance, const DeviceInfo& target) {
  return target.backend == Backend::cpu ? cpu_compile(instance, target) : cuda_compile(instance, target);
}

std::string compile_options(const DeviceInfo& target) {
  return target.backend == Backend::cpu ? cpu_compile_options(target) : cuda_compile_options(target);
}

std::string compiler_version(Backend backend) {
  return backend == Backend::cpu ? cpu_compiler_version() : cuda_compiler_version();
}

std::vector<DeviceInfo> list_devices(std::vector<std::string>* notes) {
  std::vector<DeviceInfo> devices = {cpu_device_info()};
  for (DeviceInfo& device : cuda_device_infos(notes)) devices.push_back(std::move(device));
  return devices;
}

std::unique_ptr<Device> open_device(std::string_view name) {
  if (name == "cpu") return open_cpu_device();
  if (name == "best") return cuda_device_infos(nullptr).empty() ? open_cpu_device() : open_cuda_device(0);
  if (name == "cuda") return open_cuda_device(0);
  int ordinal = -1;
  if (name.starts_with("cuda:")) {
    const std::string_view digits = name.substr(5);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0)
      return open_cuda_device(ordinal);
  }
  throw UserError(fmt::format("device '{}' is not understood; use cpu, cuda:N or best", name));
}

}  // namespace knobwise
