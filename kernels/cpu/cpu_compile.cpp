// From a kernel's source to a shared object.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/host_compiler.h"
#include "kernels/cpu/temporary_directory.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr std::string_view kSourceName = "kernel.cpp";

/// The compiler's command without files.
///
/// Contraction to fused multiply-add is the point; nothing else of fast math: NaN and signed zeros keep their
/// meaning. Comparisons need not trap, or they would not vectorise.
std::vector<std::string> command_line(const DeviceInfo& target) {
  std::vector<std::string> words = host_compiler_command();
  for (const char* option : {"-std=c++20", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno",
                             "-fno-trapping-math", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-w"})
    words.emplace_back(option);
  if (target.vector_bytes == 64) words.emplace_back("-mprefer-vector-width=512");
  return words;
}

/// The line that says what is wrong, without the path of a file that is gone by then.
std::string first_error(const std::string& output, const std::string& directory) {
  std::istringstream lines(output);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t at = line.find(directory + "/"); at != std::string::npos)
      line.erase(at, directory.size() + 1);
    if (line.find("error:") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first;
}

/// Whether somebody else ended the compiler, or a process of its own, as GCC's and Clang's drivers say.
bool was_killed(const CommandResult& result) {
  if (result.exit_status < 0) return true;
  for (const char* words : {"Killed signal terminated program", "unable to execute command: Killed"})
    if (result.output.find(words) != std::string::npos) return true;
  return false;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

[[noreturn]] void fail_unwritable(const std::string& directory, int error) {
  throw UserError(fmt::format(
      "{} cannot be written: {}", std::filesystem::path(directory).parent_path().string(),
      error == ENOSPC ? "its disk is full; free some space or set TMPDIR" : std::strerror(error)));
}

void check(const CommandResult& result, const std::string& compiler, const std::string& directory) {
  if (!result.start_error.empty())
    throw UserError(
        fmt::format("cannot run the compiler `{}` ({}): install a C++ compiler or set KNOBWISE_CXX", compiler,
                    result.start_error));
  if (result.timed_out)
    throw TrialError("compile_timeout",
                     fmt::format("`{}` took more than {} s", compiler, kCpuCompileSeconds));
  if (result.exit_status == 0) return;
  if (was_killed(result)) throw TrialError("compile_crashed", fmt::format("`{}` was killed", compiler));
  if (result.output.find(std::strerror(ENOSPC)) != std::string::npos) fail_unwritable(directory, ENOSPC);
  const std::string line = first_error(result.output, directory);
  throw TrialError("compile_failed",
                   line.empty() ? fmt::format("`{}` failed without a word", compiler) : line);
}

}  // namespace

std::string cpu_compiler_version() {
  return host_compiler_version();
}

std::string cpu_compile_options(const DeviceInfo& target) {
  return fmt::format("{}", fmt::join(command_line(target), " "));
}

CompiledCode cpu_compile(const KernelInstance& instance, const DeviceInfo& target) {
  const auto begin = std::chrono::steady_clock::now();
  const TemporaryDirectory directory;
  const std::string source = fmt::format("{}/{}", directory.path(), kSourceName);
  const std::string object = directory.path() + "/kernel.so";
  errno = 0;
  if (!(std::ofstream(source, std::ios::binary) << instance.source << std::flush))
    fail_unwritable(directory.path(), errno);
  std::vector<std::string> command = command_line(target);
  const std::string compiler = command.front();
  command.insert(command.end(), instance.compiler_options.begin(), instance.compiler_options.end());
  command.insert(command.end(), {source, "-o", object});
  check(run_command(command, directory.path(), std::chrono::seconds(kCpuCompileSeconds)), compiler,
        directory.path());
  CompiledCode code;
  code.image = read_file(object);
  if (code.image.empty()) throw TrialError("compile_failed", fmt::format("`{}` wrote no code", compiler));
  code.resources.binary_bytes = static_cast<std::int64_t>(code.image.size());
  code.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return code;
}

}  // namespace knobwise
