// Reads a problem line; every mistake is an error that points at the word.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "kernels/epilogue_table.h"
#include "kernels/problem.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

// Not above 2^63 - 1 even as a number of bytes.
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLongestLine = 4096;

// Lines of a file may end with a carriage return.
constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kDelimiters = " \t\r\n\v\f|";

constexpr std::string_view kUserPrefix = "user:";

struct Word {
  std::string_view text;
  std::size_t offset = 0;
};

// Insertions, deletions, substitutions and swaps of neighbours between two words, for suggestions (optimal
// string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known) {
  const auto nearest = std::min_element(
      known.begin(), known.end(), [word](auto a, auto b) { return distance(word, a) < distance(word, b); });
  if (nearest == known.end() || distance(word, *nearest) > std::max<std::size_t>(1, word.size() / 3))
    return "";
  return fmt::format("; did you mean '{}'?", *nearest);
}

class Parser {
 public:
  explicit Parser(std::string_view line) : line_(line) {}

  Problem parse() {
    check_length(line_.size());
    split();
    if (!words_.empty() && words_[0].text.starts_with(kUserPrefix)) return parse_user();
    read_operator();
    while (position_ < words_.size() && words_[position_].text != "|") read_word(words_[position_++]);
    require_dimensions();
    check_convolution();
    while (position_ < words_.size()) read_step();
    check_sizes();
    check_length(problem_.to_string().size());  // it is read again, by workers and from databases
    return problem_;
  }

 private:
  [[noreturn]] void fail(const Word& word, const std::string& message) const {
    throw UserError(fmt::format("problem, column {}: {}", word.offset + 1, message), std::string(line_),
                    word.offset, word.text.size());
  }

  void check_length(std::size_t length) const {
    if (length > kLongestLine) {
      throw UserError(
          fmt::format("problem: the line has {} characters; at most {} are allowed", length, kLongestLine));
    }
  }

  void split() {
    for (std::size_t i = 0; i < line_.size();) {
      if (kBlanks.find(line_[i]) != std::string_view::npos) {
        ++i;
      } else if (line_[i] == '|') {
        words_.push_back({line_.substr(i, 1), i});
        ++i;
      } else {
        const std::size_t end = std::min(line_.find_first_of(kDelimiters, i), line_.size());
        words_.push_back({line_.substr(i, end - i), i});
        i = end;
      }
    }
  }

  // user:NAME, then size= with its extents x, y, z.
  Problem parse_user() {
    problem_.user = words_[0].text.substr(kUserPrefix.size());
    const auto is_plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
    };
    if (problem_.user.empty() || !std::all_of(problem_.user.begin(), problem_.user.end(), is_plain))
      fail(words_[0], "'user:' needs the name of a kernel: letters, digits, _ . -");
    problem_.rank = 0;
    if (words_.size() > 1) read_user_size(words_[1]);
    if (words_.size() > 2) fail(words_[2], "a user's problem has a name and a size= only");
    return problem_;
  }

  void read_user_size(const Word& word) {
    constexpr std::string_view kKey = "size=";
    if (!word.text.starts_with(kKey))
      fail(word, fmt::format("unknown word '{}'; size= may follow", word.text));
    std::vector<std::pair<std::int64_t, std::string_view>> factors;
    for (std::size_t begin = kKey.size(); begin <= word.text.size();) {
      const std::size_t end = std::min(word.text.find('x', begin), word.text.size());
      if (problem_.rank == 3) fail(word, "a size has at most three extents");
      const std::int64_t extent = integer(word, word.text.substr(begin, end - begin), 1);
      problem_.in[static_cast<std::size_t>(2 - problem_.rank++)] = extent;
      factors.emplace_back(extent, "size");
      begin = end + 1;
    }
    operator_ = word;
    check_product(factors, "the number of points");
  }

  Word end_of_line() const { return {line_.substr(line_.size()), line_.size()}; }

  void read_operator() {
    if (words_.empty()) fail(end_of_line(), "an empty line; begin with conv1d, conv2d or conv3d");
    const Word word = words_[position_++];
    if (word.text.starts_with("conv_transpose")) {
      fail(word, "transposed convolutions are not supported; conv1d, conv2d and conv3d are");
    }
    if (word.text != "conv1d" && word.text != "conv2d" && word.text != "conv3d") {
      fail(word, fmt::format("unknown operator '{}'; begin with conv1d, conv2d or conv3d", word.text));
    }
    operator_ = word;
    problem_.rank = word.text[4] - '0';
  }

  // A dimension's place in d h w and t r s, if the operator has it.
  std::optional<std::size_t> index_of(std::string_view key, std::string_view letters) const {
    if (key.size() != 1) return std::nullopt;
    const std::size_t index = letters.find(key[0]);
    if (index == std::string_view::npos) return std::nullopt;
    return index;
  }

  std::int64_t integer(const Word& word, std::string_view text, std::int64_t least) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      fail(word, fmt::format("'{}' is out of range; the largest is {}", text, kLargest));
    }
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(word, fmt::format("'{}' is not a whole number", text));
    }
    if (value < least) fail(word, fmt::format("{} is too small; it must be at least {}", value, least));
    return value;
  }

  double real(const Word& word, std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument || std::isnan(value)) {
      fail(word, fmt::format("'{}' is not a number", text));
    }
    // Kernels compute in fp32: a number that is infinite or vanishes there would mean something else.
    const float single = static_cast<float>(value);
    if (error != std::errc() || !std::isfinite(single) || (single == 0 && value != 0)) {
      fail(word, fmt::format("'{}' is out of range; numbers must be representable in fp32", text));
    }
    return value == 0 ? 0 : value;  // one zero: -0 would be equal and print differently
  }

  // One number for every spatial dimension, or one for each: 2 or 2x1.
  std::array<std::int64_t, 3> per_dimension(const Word& word, std::string_view text, std::int64_t least,
                                            std::int64_t unused) const {
    std::vector<std::int64_t> values;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('x', begin), text.size());
      values.push_back(integer(word, text.substr(begin, end - begin), least));
      begin = end + 1;
    }
    const std::size_t rank = static_cast<std::size_t>(problem_.rank);
    if (values.size() == 1) values.assign(rank, values[0]);
    if (values.size() != rank) {
      fail(word, fmt::format("{} has {} spatial dimension{}: give one number or {}", operator_.text, rank,
                             rank > 1 ? "s" : "", rank));
    }
    std::array<std::int64_t, 3> all{unused, unused, unused};
    std::copy(values.begin(), values.end(), all.end() - static_cast<std::ptrdiff_t>(rank));
    return all;
  }

  void read_word(const Word& word) {
    const std::size_t equals = word.text.find('=');
    const std::string_view key = word.text.substr(0, equals);
    if (!seen_.emplace(key, word).second) fail(word, fmt::format("'{}' is given twice", key));
    if (key == "bias") {
      if (equals != std::string_view::npos) fail(word, "'bias' takes no value");
      problem_.bias = true;
      return;
    }
    if (!known_key(key)) unknown_word(word, key);
    if (equals == std::string_view::npos) fail(word, fmt::format("'{}' needs a value: {}=...", key, key));
    read_value(word, key, word.text.substr(equals + 1));
  }

  static bool known_key(std::string_view key) {
    static constexpr std::string_view kKeys[] = {"n",   "c",        "d",      "h",     "w",
                                                 "k",   "t",        "r",      "s",     "stride",
                                                 "pad", "dilation", "groups", "dtype", "layout"};
    return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
  }

  [[noreturn]] void unknown_word(const Word& word, std::string_view key) const {
    const std::vector<std::string_view> long_words = {"stride", "pad",    "dilation", "groups",
                                                      "dtype",  "layout", "bias"};
    std::string hint = key.size() > 1 ? suggestion(key, long_words) : "";
    for (const StepRow& row : step_rows()) {
      if (row.name == key) hint = fmt::format("; an epilogue step comes after '|': | {}", key);
    }
    if (hint.empty()) hint = "; words are n c d h w k t r s stride pad dilation groups dtype layout bias";
    fail(word, fmt::format("unknown word '{}'{}", key, hint));
  }

  void read_value(const Word& word, std::string_view key, std::string_view value) {
    if (key == "n") {
      problem_.n = integer(word, value, 1);
    } else if (key == "c") {
      problem_.c = integer(word, value, 1);
    } else if (key == "k") {
      problem_.k = integer(word, value, 1);
    } else if (key == "groups") {
      problem_.groups = integer(word, value, 1);
    } else if (key == "stride") {
      problem_.stride = per_dimension(word, value, 1, 1);
    } else if (key == "pad") {
      problem_.pad = per_dimension(word, value, 0, 0);
    } else if (key == "dilation") {
      problem_.dilation = per_dimension(word, value, 1, 1);
    } else if (key == "dtype") {
      problem_.dtype = dtype(word, value);
    } else if (key == "layout") {
      problem_.layout = layout(word, value);
    } else {
      read_dimension(word, key, value);
    }
  }

  void read_dimension(const Word& word, std::string_view key, std::string_view value) {
    const auto input = index_of(key, "dhw");
    const std::size_t index = input ? *input : *index_of(key, "trs");
    if (index < static_cast<std::size_t>(3 - problem_.rank)) {
      fail(word, fmt::format("{} has no dimension '{}'", operator_.text, key));
    }
    (input ? problem_.in : problem_.filter)[index] = integer(word, value, 1);
  }

  DType dtype(const Word& word, std::string_view text) const {
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      if (text == to_string(type)) return type;
    }
    fail(word, fmt::format("unknown dtype '{}'; use f32, f16 or bf16", text));
  }

  Layout layout(const Word& word, std::string_view text) const {
    for (Layout order : {Layout::nchw, Layout::nhwc}) {
      if (text == to_string(order)) return order;
    }
    fail(word, fmt::format("unknown layout '{}'; use nchw or nhwc", text));
  }

  void require_dimensions() const {
    const std::size_t first = static_cast<std::size_t>(3 - problem_.rank);
    const std::string required =
        "nc" + std::string("dhw").substr(first) + "k" + std::string("trs").substr(first);
    std::string missing;
    for (char key : required) {
      if (!seen_.contains(std::string_view(&key, 1))) missing += fmt::format(" {}=", key);
    }
    if (!missing.empty()) fail(operator_, fmt::format("{} needs{} too", operator_.text, missing));
  }

  // The word that set a value, or the operator where it is a default.
  Word word_of(std::string_view key) const {
    const auto found = seen_.find(key);
    return found == seen_.end() ? operator_ : found->second;
  }

  void check_convolution() const {
    const Problem& p = problem_;
    if (p.c % p.groups != 0)
      fail(word_of("groups"), fmt::format("groups={} does not divide c={}", p.groups, p.c));
    if (p.k % p.groups != 0)
      fail(word_of("groups"), fmt::format("groups={} does not divide k={}", p.groups, p.k));
    for (std::size_t i = 0; i < 3; ++i) {
      // All as 128-bit: neither twice the pad nor the dilated filter need fit in 64 bits.
      const __int128 padded = static_cast<__int128>(p.in[i]) + 2 * static_cast<__int128>(p.pad[i]);
      const __int128 reach = static_cast<__int128>(p.dilation[i]) * (p.filter[i] - 1) + 1;
      const std::string_view name = std::string_view("trs").substr(i, 1);
      if (padded > kLargest) fail(word_of("pad"), "the padded input exceeds 2^63 - 1");
      if (reach > padded) {
        fail(
            word_of(name),
            fmt::format(
                "the output is empty: {}={} with its dilation reaches over {} inputs, of {} with the padding",
                name, p.filter[i], static_cast<std::int64_t>(std::min<__int128>(reach, kLargest)),
                static_cast<std::int64_t>(padded)));
      }
    }
  }

  // Steps of the epilogue: a bar, a name, its arguments.
  void read_step() {
    const Word bar = words_[position_++];
    if (position_ == words_.size() || words_[position_].text == "|")
      fail(bar, "an epilogue step must follow '|'");
    const Word name = words_[position_++];
    std::vector<Word> arguments;
    while (position_ < words_.size() && words_[position_].text != "|")
      arguments.push_back(words_[position_++]);
    std::vector<std::string_view> known;
    for (const StepRow& row : step_rows()) {
      known.push_back(row.name);
      if (row.name != name.text) continue;
      problem_.epilogue.push_back(step(row, name, arguments));
      return;
    }
    fail(name, fmt::format("unknown epilogue step '{}'{}", name.text, suggestion(name.text, known)));
  }

  EpilogueStep step(const StepRow& row, const Word& name, const std::vector<Word>& arguments) const {
    EpilogueStep result;
    result.op = row.op;
    switch (row.form) {
      case StepForm::numbers:
        read_numbers(row, name, arguments, result);
        break;
      case StepForm::axis:
      case StepForm::channel:
        read_axis(row, name, arguments, result);
        break;
      case StepForm::norm:
        read_norm(name, arguments, result);
        break;
    }
    return result;
  }

  void read_numbers(const StepRow& row, const Word& name, const std::vector<Word>& arguments,
                    EpilogueStep& result) const {
    const std::size_t count = static_cast<std::size_t>(row.count);
    if (arguments.size() < count) {
      fail(name, fmt::format("'{}' needs {} number{}", row.name, count, count > 1 ? "s" : ""));
    }
    if (arguments.size() > count)
      fail(arguments[count], fmt::format("'{}' takes {} number{}", row.name, count, count == 1 ? "" : "s"));
    for (const Word& argument : arguments) result.numbers.push_back(real(argument, argument.text));
    if (row.op == EpilogueOp::div && result.numbers[0] == 0) fail(arguments[0], "division by zero");
    if (row.op == EpilogueOp::clamp && result.numbers[0] > result.numbers[1]) {
      fail(arguments[1], "the upper bound of clamp is below the lower one");
    }
  }

  void read_axis(const StepRow& row, const Word& name, const std::vector<Word>& arguments,
                 EpilogueStep& result) const {
    const bool channel_only = row.form == StepForm::channel;
    if (arguments.size() != 1) {
      fail(arguments.size() > 1 ? arguments[1] : name,
           fmt::format("'{}' takes one axis: {}", row.name,
                       channel_only ? "channel" : "channel, depth, height or width"));
    }
    const Word& word = arguments[0];
    for (Axis axis : {Axis::channel, Axis::depth, Axis::height, Axis::width}) {
      if (word.text != to_string(axis) || (channel_only && axis != Axis::channel)) continue;
      result.axis = axis;
      check_axis(word, axis, row.form == StepForm::axis);
      return;
    }
    fail(word, fmt::format("'{}' does not know the axis '{}'", row.name, word.text));
  }

  void check_axis(const Word& word, Axis axis, bool reduces) const {
    const int needed = axis == Axis::depth ? 3 : axis == Axis::height ? 2 : 1;
    if (problem_.rank < needed) fail(word, fmt::format("{} has no {}", operator_.text, to_string(axis)));
    if (!reduces) return;
    for (const EpilogueStep& earlier : problem_.epilogue) {
      if (step_row(earlier.op).form == StepForm::axis && earlier.axis == axis) {
        fail(word, fmt::format("the {} was reduced before", to_string(axis)));
      }
    }
  }

  void read_norm(const Word& name, const std::vector<Word>& arguments, EpilogueStep& result) const {
    const bool grouped = result.op == EpilogueOp::group_norm;
    result.numbers = {1e-5};
    std::optional<Word> groups;
    std::vector<std::string_view> seen;
    for (const Word& word : arguments) {
      const std::size_t equals = word.text.find('=');
      const std::string_view key = word.text.substr(0, equals);
      const std::string_view value = equals == std::string_view::npos ? "" : word.text.substr(equals + 1);
      if (std::find(seen.begin(), seen.end(), key) != seen.end())
        fail(word, fmt::format("'{}' is given twice", key));
      seen.push_back(key);
      if (word.text == "affine") {
        result.affine = true;
      } else if (key == "eps" && equals != std::string_view::npos) {
        result.numbers[0] = real(word, value);
        if (result.numbers[0] < 0) fail(word, "eps must not be negative");
      } else if (grouped && key == "groups" && equals != std::string_view::npos) {
        result.groups = integer(word, value, 1);
        groups = word;
      } else {
        fail(word, fmt::format("'{}' does not take '{}'; it takes {}eps=, affine", name.text, word.text,
                               grouped ? "groups=, " : ""));
      }
    }
    if (!grouped) return;
    if (!groups) fail(name, "group_norm needs groups=");
    const std::int64_t channels = problem_.extents_before(problem_.epilogue.size()).c;
    if (channels % result.groups != 0) {
      fail(*groups, fmt::format("groups={} does not divide the {} channels", result.groups, channels));
    }
  }

  // Products by 128-bit steps; the words are those of the factors, so that the error can point at the
  // largest.
  void check_product(const std::vector<std::pair<std::int64_t, std::string_view>>& factors,
                     const std::string& what) const {
    __int128 product = 1;
    for (const auto& [value, key] : factors) {
      product *= value;
      if (product <= kLargest) continue;
      const auto largest = std::max_element(factors.begin(), factors.end(),
                                            [](const auto& a, const auto& b) { return a.first < b.first; });
      fail(word_of(largest->second), fmt::format("{} exceeds 2^63 - 1; make the problem smaller", what));
    }
  }

  void check_sizes() const {
    const Problem& p = problem_;
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(p.dtype));
    const Extents out = p.conv_extents();
    check_product({{bytes, "n"}, {p.n, "n"}, {p.c, "c"}, {p.in[0], "d"}, {p.in[1], "h"}, {p.in[2], "w"}},
                  "the input's size in bytes");
    check_product({{bytes, "k"},
                   {p.k, "k"},
                   {p.c / p.groups, "c"},
                   {p.filter[0], "t"},
                   {p.filter[1], "r"},
                   {p.filter[2], "s"}},
                  "the weights' size in bytes");
    // Eight bytes: the float64 reference of every output must be addressable too.
    check_product({{8, "n"}, {p.n, "n"}, {p.k, "k"}, {out.d, "d"}, {out.h, "h"}, {out.w, "w"}},
                  "the output's size");
    check_product({{2, "n"},
                   {p.n, "n"},
                   {p.k, "k"},
                   {out.d, "d"},
                   {out.h, "h"},
                   {out.w, "w"},
                   {p.c / p.groups, "c"},
                   {p.filter[0], "t"},
                   {p.filter[1], "r"},
                   {p.filter[2], "s"}},
                  "the number of operations");
    check_total();
  }

  void check_total() const {
    __int128 elements =
        static_cast<__int128>(problem_.input_extents().elements()) + problem_.output_extents().elements();
    for (const ParameterSpec& parameter : problem_.parameters()) elements += parameter.elements();
    if (elements * static_cast<__int128>(size_of(problem_.dtype)) > kLargest) {
      fail(operator_, "all tensors together exceed 2^63 - 1 bytes; make the problem smaller");
    }
  }

  std::string_view line_;
  std::vector<Word> words_;
  std::size_t position_ = 0;
  Word operator_;
  std::map<std::string_view, Word> seen_;
  Problem problem_;
};

}  // namespace

Problem Problem::parse(std::string_view line) {
  return Parser(line).parse();
}

}  // namespace knobwise
