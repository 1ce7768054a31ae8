// Machine code of trials.
#include "db/code_image.h"
#include "db/store.h"
#include "db/store_impl.h"
#include "search_spaces/user_error.h"

namespace knobwise {

void Store::put_code(std::int64_t trial, std::string_view image) {
  if (image.empty()) throw std::invalid_argument("machine code is empty");
  const std::string hash = content_hash(image), frame = compress_image(image);
  impl_->transact([&] {
    Query add(impl_->prepare(
        "INSERT INTO machine_code (hash, image_bytes, image) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"));
    add.bind(hash).bind(static_cast<std::int64_t>(image.size())).bind_blob(frame);
    add.run();
    const auto code = impl_->find("SELECT id FROM machine_code WHERE hash = ?", hash);
    Query(impl_->prepare("INSERT INTO trial_code (trial, code) VALUES (?, ?) "
                         "ON CONFLICT (trial) DO UPDATE SET code = excluded.code"))
        .bind(trial)
        .bind(code.value())
        .run();
    // What the trial had before may be nobody's now.
    Query(impl_->prepare("DELETE FROM machine_code WHERE id NOT IN (SELECT code FROM trial_code)")).run();
  });
}

std::optional<std::string> Store::code(std::int64_t trial) const {
  if (!impl_->holds_code()) return std::nullopt;
  return impl_->guard([&]() -> std::optional<std::string> {
    Query query(
        impl_->prepare("SELECT c.hash, c.image_bytes, c.image FROM trial_code AS t JOIN machine_code AS c "
                       "ON c.id = t.code WHERE t.trial = ?"));
    query.bind(trial);
    if (!query.next()) return std::nullopt;
    std::string hash, frame;
    query.read(hash);
    const std::int64_t bytes = query.read_integer();
    query.read(frame);
    std::optional<std::string> image = decompress_image(frame, bytes, hash);
    if (!image) {
      throw UserError(fmt::format(
          "database '{}' holds damaged machine code for trial {}, which is not used: run 'knobwise db check'",
          impl_->name(), trial));
    }
    return image;
  });
}

}  // namespace knobwise
