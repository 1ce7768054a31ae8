// The one exception type for requests that a person got wrong.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace knobwise {

/// A request that cannot be carried out as written: a bad problem line, file, option or value.
///
/// what() is one line that names the thing, the place and the remedy. Where the mistake stands in a text of
/// one line, text(), offset() and length() say where, so that the command line can underline the word;
/// length() is 0 otherwise. The executable turns this into exit status 2. Failed trials are data and never
/// throw this.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}

  /// `offset` and `length` are bytes into `text`; an offset of text.size() points just past the end.
  UserError(const std::string& message, std::string text, std::size_t offset, std::size_t length)
      : std::runtime_error(message), text_(std::move(text)), offset_(offset), length_(length) {}

  const std::string& text() const { return text_; }
  std::size_t offset() const { return offset_; }
  std::size_t length() const { return length_; }

 private:
  std::string text_;
  std::size_t offset_ = 0;
  std::size_t length_ = 0;
};

}  // namespace knobwise
