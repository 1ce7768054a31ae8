// Translation of SQLite's failures into the project's exceptions.
#pragma once

#include <SQLiteCpp/Exception.h>

#include <string>

namespace knobwise {

/// Throws what a failure of a statement on the database `name` means to the caller: a UserError when a person
/// can mend it (lock, disk, permissions, damage), std::invalid_argument when a record broke a rule of the
/// schema, and std::runtime_error otherwise.
[[noreturn]] void throw_translated(const SQLite::Exception& failure, const std::string& name);

}  // namespace knobwise
