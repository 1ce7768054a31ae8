// Random expressions for property tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace knobwise {

/// Writes random expressions over the names a, b, i, r (numbers), flag and s (text), with operands whose
/// types mostly go together.
class RandomExpressions {
 public:
  explicit RandomExpressions(std::uint64_t seed) : random_(seed) {}

  std::string any(int depth) {
    switch (below(5)) {
      case 0:
        return text(depth);
      case 1:
        return list(depth);
      case 2:
        return truth(depth);
      default:
        return number(depth);
    }
  }

  std::string truth(int depth) {
    if (depth == 0) return pick({"True", "False", "flag", "a"});
    const auto sub = [&] { return parenthesised(any(depth - 1)); };
    const std::vector<std::string> orders = {"<", "<=", ">", ">=", "==", "!="};
    switch (below(7)) {
      case 0:
        return fmt::format("not {}", sub());
      case 1:
        return fmt::format("{} {} {}", sub(), pick({"and", "or"}), sub());
      case 2:
        return fmt::format("{} {} {}", sub(), pick({"in", "not in"}), parenthesised(list(depth - 1)));
      case 3:
        return fmt::format("{} {} {}", sub(), pick(orders), sub());
      case 4:
        return fmt::format("{}({})", pick({"any", "all"}), list(depth - 1));
      default: {
        const auto operand = [&] { return parenthesised(number(depth - 1)); };
        return fmt::format("{} {} {} {} {}", operand(), pick(orders), operand(), pick(orders), operand());
      }
    }
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::string pick(const std::vector<std::string>& options) { return options[below(options.size())]; }

  std::string number(int depth) {
    if (depth == 0)
      return pick({"0", "1", "2", "3", "7", "16", "0.5", "2.0", "1e3", "a", "b", "r", "True", "flag", "i"});
    const auto sub = [&] { return parenthesised(number(depth - 1)); };
    switch (below(10)) {
      case 0:
        return fmt::format("{}{}", pick({"-", "+", "- -"}), sub());
      case 1:
        return fmt::format("{} ** {}", sub(), pick({"0", "1", "2", "3", "-1", "-2"}));
      case 2:
        return fmt::format("{}({}, {})", pick({"min", "max"}), number(depth - 1), number(depth - 1));
      case 3:
        return fmt::format("{}({})", pick({"abs", "int", "float", "round"}), number(depth - 1));
      case 4:
        return fmt::format("{}({})", pick({"sum", "len", "max"}), list(depth - 1));
      case 5:
        return fmt::format("{} {} {}", sub(), pick({"and", "or"}), sub());
      case 6:
        return fmt::format("{} if {} else {}", sub(), truth(depth - 1), sub());
      case 7:
        return fmt::format("{}[{}]", parenthesised(list(depth - 1)), pick({"0", "1", "-1"}));
      default:
        return fmt::format("{} {} {}", sub(), pick({"+", "-", "*", "/", "//", "%", "+", "*", "&", "|", "^"}),
                           sub());
    }
  }

  std::string text(int depth) {
    if (depth == 0) return pick({"'fp32'", "\"tf32\"", "''", "s", "'it\\'s'"});
    return fmt::format("{} {}", parenthesised(text(depth - 1)), pick({"+ 'x'", "* 2", "+ s", "or 'y'"}));
  }

  std::string list(int depth) {
    if (depth == 0)
      return pick({"[1, 2, 4]", "[]", "[0.5, a]", "['fp32', s]", "list(range(3))", "list(range(4, 0, -2))"});
    switch (below(6)) {
      case 0:
        return fmt::format("[{}, {}]", number(depth - 1), truth(depth - 1));
      case 4:
        return fmt::format("[{} for i in {} for j in {}]", number(depth - 1), parenthesised(list(depth - 1)),
                           parenthesised(list(depth - 1)));
      case 5:
        return fmt::format("[{} for i in {} if {} for j in [i, a] if j != i if {}]", number(depth - 1),
                           parenthesised(list(depth - 1)), parenthesised(truth(depth - 1)),
                           parenthesised(truth(depth - 1)));
      case 1:
        return fmt::format("{} + {}", parenthesised(list(depth - 1)), parenthesised(list(depth - 1)));
      case 2:
        return fmt::format("[{} for i in {}]", number(depth - 1), parenthesised(list(depth - 1)));
      default:
        return fmt::format("[i for i in {} if {}]", parenthesised(list(depth - 1)),
                           parenthesised(truth(depth - 1)));
    }
  }

  // Left out at times, so that precedence decides.
  std::string parenthesised(const std::string& inner) { return below(3) == 0 ? inner : "(" + inner + ")"; }

  std::mt19937_64 random_;
};

}  // namespace knobwise
