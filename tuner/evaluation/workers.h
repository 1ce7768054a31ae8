// What the processes of a session do: `knobwise worker compile` and `knobwise worker measure`.
#pragma once

namespace knobwise {

/// Serve requests from the socket on standard input until it closes; return the exit status.
///
/// A problem of a user's kernel comes with {kernel: {file, hash}}; if the files are not what the hash says,
/// they have changed since the session began, and the answer is {error}.
///
/// Compile: {id, device, problem, kernel?, family, configuration} -> {id, code}, {id, status, reason} or
/// {id, error}.
int run_compile_worker();

/// Measure: first {device: name, problem, kernel?, seed} -> {} or {error}; then
///   {evaluate: {family, configuration, code?, timing, quiet}} -> {trial}; if `quiet`, {quiet} comes before,
///     once it is verified, and it is timed when {} has answered
///   {time: {family, configuration, code?, timing}}     -> {timing} or {status, reason}
int run_measure_worker();

}  // namespace knobwise
