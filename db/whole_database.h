// Databases that are made whole or not at all.
#pragma once

#include <filesystem>
#include <functional>

#include "db/store.h"

namespace knobwise {

/// Gives the database at `path`, open for writing, to `change`. One that is not there is made beside its
/// place and moved there when `change` returns, so that a failure leaves nothing behind. Throws UserError as
/// Store::open() does, and when another database appeared there meanwhile, which stays; passes on what
/// `change` throws.
void change_or_make(const std::filesystem::path& path, const std::function<void(Store&)>& change);

}  // namespace knobwise
