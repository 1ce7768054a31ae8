// What the processes of a session do: `knobwise worker compile` and `knobwise worker measure`.
#pragma once

namespace knobwise {

/// Serve requests from the socket on standard input until it closes; return the exit status.
///
/// Compile: {id, device, problem, family, configuration} -> {id, code} or {id, status, reason}.
int run_compile_worker();

/// Measure: first {device: name, problem, seed} -> {} or {error}; then
///   {evaluate: {family, configuration, code?, timing}} -> {trial}
///   {time: {family, configuration, code?, timing}}     -> {timing} or {status, reason}
int run_measure_worker();

}  // namespace knobwise
