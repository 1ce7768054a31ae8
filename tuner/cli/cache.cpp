// `cache`: what the folder of compiled code holds, and emptying it.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/code_cache.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"

namespace knobwise::cli {
namespace {

void show(const CodeCache& cache, bool json) {
  const CodeCache::Info info = cache.info();
  if (json) {
    const nlohmann::json document = {{"folder", cache.folder().string()},
                                     {"files", info.files},
                                     {"bytes", info.bytes},
                                     {"limit_bytes", CodeCache::kDefaultLimit}};
    print_json(document);
  } else {
    std::cout << fmt::format("{}: {} files, {} of at most {}\n", cache.folder().string(), info.files,
                             format_bytes(info.bytes), format_bytes(CodeCache::kDefaultLimit));
  }
}

void empty(const CodeCache& cache, bool json) {
  const std::int64_t bytes = cache.info().bytes;
  const std::int64_t files = cache.clear();
  if (const CodeCache::Info left = cache.info(); left.files > 0) {
    throw UserError(fmt::format("{}: {} files cannot be removed; see to the folder's permissions",
                                cache.folder().string(), left.files));
  }
  if (json) {
    print_json({{"removed_files", files}, {"removed_bytes", bytes}});
  } else {
    std::cout << fmt::format("{}: removed {} files, {}\n", cache.folder().string(), files,
                             format_bytes(bytes));
  }
}

}  // namespace

int cache(const std::vector<std::string>& arguments) {
  Options options;
  add_json(options);
  const auto variables =
      parse(arguments,
            {"cache info|clear [--json]",
             "Says what the cache of compiled code holds, or empties it. All sessions and\n"
             "applications of this user share it; the longest unused code goes first when it reaches its\n"
             "limit. It is in $KNOBWISE_CACHE, else $XDG_CACHE_HOME/knobwise, else ~/.cache/knobwise.",
             "  knobwise cache info\n"
             "  knobwise cache clear\n"},
            options, "action");
  if (!variables) return kSuccess;
  const std::string action = (*variables)["action"].as<std::vector<std::string>>().front();
  const bool json = variables->count("json") > 0;
  if (action == "info") {
    show(CodeCache(), json);
  } else if (action == "clear") {
    empty(CodeCache(), json);
  } else {
    throw UserError(fmt::format("cache: there is no action '{}'; use: knobwise cache info|clear", action));
  }
  return kSuccess;
}

}  // namespace knobwise::cli
