// A copy beside a database before its schema changes.
#pragma once

#include <filesystem>

namespace knobwise {

/// Writes the committed content of `database` to "FILE.schemaN.backup" beside it, or to
/// "FILE.schemaN.backup.2",
/// ... if there is one already: no file is overwritten, and the copy appears whole or not at all. Other
/// processes may use the database meanwhile. Throws UserError when there is no room for it.
void back_up(const std::filesystem::path& database, int version);

}  // namespace knobwise
