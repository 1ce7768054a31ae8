#include "runtime/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "search_spaces/never_destroyed.h"

namespace knobwise::runtime_detail {
namespace {

// Not the default logger: that one writes to standard output, which belongs to the application.
spdlog::logger& logger() {
  static auto& instance =
      never_destroyed(spdlog::logger("knobwise", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  return instance;
}

}  // namespace

void log_info(const std::string& message) {
  logger().info("{}", message);
}

void log_warning(const std::string& message) {
  logger().warn("{}", message);
}

}  // namespace knobwise::runtime_detail
