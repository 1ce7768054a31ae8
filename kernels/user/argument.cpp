#include "kernels/user/argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "kernels/operands.h"
#include "kernels/parallel_for.h"
#include "kernels/user/launch_shape.h"
#include "search_spaces/t1_json.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using nlohmann::json;

constexpr std::int64_t kBlock = 1 << 16;  // components that one task fills

double fill_value(const json& argument, double otherwise, const std::string& place, const Names& names,
                  const ListNames& lists) {
  const json* value = t1_member(argument, "FillValue");
  if (value == nullptr) return otherwise;
  const Value result = t1_scalar(*value, false, place + ": FillValue").evaluate(names, lists);
  if (const auto* real = std::get_if<double>(&result)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&result)) return static_cast<double>(*integer);
  if (const auto* flag = std::get_if<bool>(&result)) return *flag ? 1 : 0;
  t1_error(place, "FillValue is no number");
}

void fill_by_index(void* data, const ElementType& type, std::int64_t components,
                   const std::function<double(std::int64_t)>& value) {
  parallel_for((components + kBlock - 1) / kBlock, 0, [&](std::int64_t block) {
    const std::int64_t end = std::min(components, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i) type.store(data, i, value(i));
  });
}

void fill_by_expression(void* data, const ElementType& type, std::int64_t components,
                        const std::string& source) {
  // A list at a time: an expression is compiled for each evaluation.
  for (std::int64_t begin = 0; begin < components; begin += kBlock) {
    const std::int64_t end = std::min(components, begin + kBlock);
    const std::vector<Value> values =
        Expression::parse(fmt::format("[({}) + 0 for i in range({}, {})]", source, begin, end))
            .evaluate_list();
    for (std::int64_t i = begin; i < end; ++i) {
      const Value& value = values[static_cast<std::size_t>(i - begin)];
      const auto* integer = std::get_if<std::int64_t>(&value);
      type.store(data, i, integer ? static_cast<double>(*integer) : std::get<double>(value));
    }
  }
}

void read_content(void* data, std::size_t bytes, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(fmt::format("{}: cannot be read; check that the file exists", path));
  file.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  if (static_cast<std::size_t>(file.gcount()) != bytes || file.peek() != std::ifstream::traits_type::eof())
    throw UserError(fmt::format("{}: the argument takes {} bytes and the file has {}", path, bytes,
                                std::filesystem::file_size(path)));
}

}  // namespace

ArgumentFill ArgumentFill::parse(const json& argument, const std::filesystem::path& folder,
                                 const std::string& place, const Names& names, const ListNames& lists) {
  ArgumentFill fill;
  const std::string type = plain_word(t1_text(argument, "FillType"));
  fill.source = t1_text(argument, "DataSource");
  fill.value = fill_value(argument, type == "random" ? 1 : 0, place, names, lists);
  if (const json* seed = t1_member(argument, "RandomSeed"); seed != nullptr && seed->is_number_integer())
    fill.seed = seed->get<std::uint64_t>();
  if (type == "constant" || (type.empty() && t1_member(argument, "FillValue"))) {
    fill.kind = Kind::constant;
  } else if (type == "random") {
    fill.kind = Kind::random;
  } else if (type == "generator") {
    fill.kind = Kind::generator;
    t1_expression(fill.source, place + ": DataSource");
  } else if (type == "binaryraw") {
    fill.kind = Kind::file;
    if (fill.source.empty()) t1_error(place, "it has no DataSource");
    fill.source = (folder / fill.source).lexically_normal().string();
  } else if (!type.empty() && type != "uninitialized") {
    t1_error(place, fmt::format("FillType {} is not supported; use Constant, Random, Generator or BinaryRaw",
                                t1_text(argument, "FillType")));
  }
  return fill;
}

void ArgumentFill::fill(void* data, const ElementType& type, std::int64_t components,
                        std::uint64_t default_seed) const {
  switch (kind) {
    case Kind::none:
      return;
    case Kind::constant:
      return fill_by_index(data, type, components, [this](std::int64_t) { return value; });
    case Kind::random: {
      OperandFill operand;
      operand.kind = type.is_real() ? OperandFill::Kind::uniform : OperandFill::Kind::integers;
      operand.seed = seed.value_or(default_seed);
      operand.low = std::min(0.0, value), operand.high = std::max(0.0, value);
      return fill_by_index(data, type, components, [&](std::int64_t i) { return operand_value(operand, i); });
    }
    case Kind::generator:
      return fill_by_expression(data, type, components, source);
    case Kind::file:
      return read_content(data, static_cast<std::size_t>(components) * type.component_bytes, source);
  }
}

UserArgument UserArgument::parse(const json& argument, const std::filesystem::path& folder,
                                 const Names& names, const ListNames& lists, const std::string& place) {
  UserArgument result;
  result.name = t1_text(argument, "Name");
  const std::string memory = plain_word(t1_text(argument, "MemoryType"));
  if (memory == "scalar") {
    result.memory = Memory::scalar;
  } else if (memory == "symbol") {
    result.memory = Memory::symbol;
  } else if (memory != "vector" && !memory.empty()) {
    t1_error(place, fmt::format("MemoryType {} is not supported; use Vector, Scalar or Symbol",
                                t1_text(argument, "MemoryType")));
  }
  std::size_t custom_bytes = 0;
  if (const json* bytes = t1_member(argument, "TypeSize"); bytes != nullptr && bytes->is_number_unsigned())
    custom_bytes = bytes->get<std::size_t>();
  result.type = ElementType::parse(t1_text(argument, "Type"), custom_bytes, place);
  result.fill = ArgumentFill::parse(argument, folder, place, names, lists);
  result.constant = plain_word(t1_text(argument, "MemType")) == "constant" || result.memory == Memory::symbol;
  if (result.constant && result.name.empty()) t1_error(place, "constant memory needs the Name of its array");
  if (result.memory == Memory::scalar) return result;

  const json* size = t1_member(argument, "Size");
  if (size == nullptr) t1_error(place, "it has no Size");
  result.elements = whole_number(t1_scalar(*size, false, place + ": Size"), names, lists, place + ": Size");
  const auto most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(result.type.bytes());
  if (result.elements < 1 || result.elements > most)
    t1_error(place, fmt::format("Size is {}; it must be at least 1", result.elements));
  const std::string access = plain_word(t1_text(argument, "AccessType"));
  result.writable = access == "writeonly" || access == "readwrite";
  result.overwrites = access == "writeonly";
  if (const json* output = t1_member(argument, "Output"))
    result.output = output->is_boolean() ? output->get<bool>() : *output != 0;
  return result;
}

}  // namespace knobwise
