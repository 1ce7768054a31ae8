// The C interface: statuses instead of exceptions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "include/knobwise/dispatcher.h"
#include "include/knobwise/knobwise.h"
#include "kernels/device.h"

struct knobwise_dispatcher {
  knobwise::Dispatcher dispatcher;
};

struct knobwise_plan {
  knobwise::Plan plan;
  mutable std::once_flag asked = {};
  mutable std::string description = {};  // made when it is asked for
};

namespace {

// Fixed storage: reporting that memory ran out must not need any.
thread_local char last_error[1024];

knobwise_status fail(knobwise_status status, const char* message) {
  std::size_t length = 0;
  while (message[length] != '\0' && length + 1 < sizeof last_error) {
    last_error[length] = message[length];
    ++length;
  }
  // A message that is cut ends with a whole character of UTF-8.
  if (message[length] != '\0')
    while (length > 0 && (message[length] & 0xC0) == 0x80) --length;
  last_error[length] = '\0';
  return status;
}

// Runs `body` and turns what it throws into a status and the thread's last error.
template <class Body>
knobwise_status guarded(Body body) noexcept {
  try {
    body();
    return KNOBWISE_OK;
  } catch (const knobwise::UserError& error) {
    return fail(KNOBWISE_INVALID_ARGUMENT, error.what());
  } catch (const knobwise::TrialError& error) {
    return fail(KNOBWISE_DEVICE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return fail(KNOBWISE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(KNOBWISE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(KNOBWISE_INTERNAL_ERROR, "unknown error");
  }
}

void require(const void* pointer, const char* name) {
  if (!pointer) throw knobwise::UserError(std::string(name) + ": a null pointer");
}

std::vector<std::filesystem::path> to_paths(const char* const* names, size_t count, const char* what) {
  if (count > 0) require(names, what);
  std::vector<std::filesystem::path> paths;
  for (size_t i = 0; i < count; ++i) {
    require(names[i], what);
    paths.emplace_back(names[i]);
  }
  return paths;
}

knobwise::Requirement to_requirement(const knobwise_requirement* given) {
  knobwise::Requirement requirement;
  if (!given) return requirement;
  if (given->accuracy) requirement.accuracy = knobwise::AccuracyRequirement::parse(given->accuracy);
  if (given->allow) requirement.allow = knobwise::ProvenanceSet::parse(given->allow);
  if (given->limit_workspace) requirement.max_workspace_bytes = given->max_workspace_bytes;
  requirement.deterministic = given->deterministic != 0;
  requirement.allow_stale = given->allow_stale != 0;
  return requirement;
}

static_assert(static_cast<int>(knobwise::TuningState::failed) == KNOBWISE_TUNING_FAILED);

knobwise::DispatcherOptions to_options(const knobwise_options* given) {
  knobwise::DispatcherOptions options;
  if (!given) return options;
  options.databases = to_paths(given->databases, given->database_count, "databases");
  options.trusted = to_paths(given->trusted, given->trusted_count, "trusted");
  if (given->device) options.device = given->device;
  if (given->code_cache) options.code_cache = given->code_cache;
  options.tune_on_miss.seconds = given->tune_seconds;
  options.tune_on_miss.limit_seconds = given->tune_limit_seconds;
  if (given->tune_executable) options.tune_on_miss.executable = given->tune_executable;
  if (given->on_new_plan) {
    options.on_new_plan = [report = given->on_new_plan,
                           context = given->context](const knobwise::PlanDescription& description) {
      report(description.to_json().c_str(), context);
    };
  }
  return options;
}

void copy_text(const std::string& text, char* to, std::size_t bytes) {
  if (!to || bytes == 0) return;
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

extern "C" {

const char* knobwise_version(void) {
  return knobwise::version().data();
}

const char* knobwise_last_error(void) {
  return last_error;
}

knobwise_status knobwise_open(const char* const* databases, size_t count, const char* device,
                              knobwise_dispatcher** dispatcher) {
  knobwise_options options = {};
  options.databases = databases;
  options.database_count = count;
  options.device = device;
  return knobwise_open_with(&options, dispatcher);
}

knobwise_status knobwise_open_with(const knobwise_options* options, knobwise_dispatcher** dispatcher) {
  return guarded([&] {
    require(dispatcher, "dispatcher");
    *dispatcher = nullptr;
    *dispatcher = new knobwise_dispatcher{knobwise::Dispatcher(to_options(options))};
  });
}

void knobwise_close(knobwise_dispatcher* dispatcher) {
  delete dispatcher;
}

knobwise_status knobwise_notes(const knobwise_dispatcher* dispatcher, char* text, size_t bytes) {
  return guarded([&] {
    require(dispatcher, "dispatcher");
    require(text, "text");
    copy_text(fmt::format("{}", fmt::join(dispatcher->dispatcher.notes(), "\n")), text, bytes);
  });
}

knobwise_status knobwise_refresh(knobwise_dispatcher* dispatcher) {
  return guarded([&] {
    require(dispatcher, "dispatcher");
    dispatcher->dispatcher.refresh();
  });
}

knobwise_status knobwise_tuning(const knobwise_dispatcher* dispatcher, const char* problem,
                                const knobwise_requirement* requirement, knobwise_tuning_state* state,
                                char* message, size_t message_bytes) {
  return guarded([&] {
    require(dispatcher, "dispatcher");
    require(problem, "problem");
    require(state, "state");
    const knobwise::TuningStatus status =
        dispatcher->dispatcher.tuning(knobwise::Problem::parse(problem), to_requirement(requirement));
    *state = static_cast<knobwise_tuning_state>(status.state);
    copy_text(status.message, message, message_bytes);
  });
}

knobwise_status knobwise_plan_create(knobwise_dispatcher* dispatcher, const char* problem,
                                     const knobwise_requirement* requirement, knobwise_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    *plan = nullptr;
    require(dispatcher, "dispatcher");
    require(problem, "problem");
    knobwise::Plan made = dispatcher->dispatcher.plan(std::string_view(problem), to_requirement(requirement));
    *plan = new knobwise_plan{std::move(made)};
  });
}

void knobwise_plan_destroy(knobwise_plan* plan) {
  delete plan;
}

const char* knobwise_plan_description(const knobwise_plan* plan) {
  if (!plan) return nullptr;
  const knobwise_status status = guarded([plan] {
    std::call_once(plan->asked, [plan] { plan->description = plan->plan.description().to_json(); });
  });
  return status == KNOBWISE_OK ? plan->description.c_str() : nullptr;
}
size_t knobwise_plan_input_bytes(const knobwise_plan* plan) {
  return plan ? plan->plan.input_bytes() : 0;
}
size_t knobwise_plan_output_bytes(const knobwise_plan* plan) {
  return plan ? plan->plan.output_bytes() : 0;
}
size_t knobwise_plan_workspace_bytes(const knobwise_plan* plan) {
  return plan ? plan->plan.workspace_bytes() : 0;
}

knobwise_status knobwise_plan_prepare(knobwise_plan* plan, const knobwise_const_buffer* parameters,
                                      size_t count, void* stream) {
  return guarded([&] {
    require(plan, "plan");
    const std::size_t wanted = plan->plan.problem().parameters().size();
    if (count != wanted)
      throw knobwise::UserError(
          fmt::format("prepare: {} parameters given, the problem has {}", count, wanted));
    require(parameters, "parameters");
    std::vector<knobwise::ConstBuffer> buffers;
    for (size_t i = 0; i < count; ++i) buffers.emplace_back(parameters[i].data, parameters[i].bytes);
    plan->plan.prepare(buffers, stream);
  });
}

knobwise_status knobwise_plan_run(knobwise_plan* plan, knobwise_const_buffer input, knobwise_buffer output,
                                  knobwise_buffer workspace, void* stream) {
  return guarded([&] {
    require(plan, "plan");
    const knobwise::ConstBuffer in(input.data, input.bytes);
    const knobwise::MutableBuffer out(output.data, output.bytes);
    if (workspace.data) {
      plan->plan.run(in, out, {workspace.data, workspace.bytes}, stream);
    } else {
      plan->plan.run(in, out, stream);
    }
  });
}

}  // extern "C"
