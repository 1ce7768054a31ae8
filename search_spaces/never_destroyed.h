// Statics that are there until the very end of a program.
#pragma once

#include <utility>

namespace knobwise {

/// Keeps a value for good. For function-local statics: when a program exits, its other threads and the
/// destructors of its own static objects may still be in the library.
template <class T>
T& never_destroyed(T value) {
  return *new T(std::move(value));
}

}  // namespace knobwise
