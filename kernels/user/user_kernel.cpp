#include "kernels/user/user_kernel.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "kernels/device.h"
#include "kernels/user/kernel_source.h"
#include "search_spaces/t1_json.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Raised whenever this folder changes what it generates from the same files.
constexpr std::string_view kHostVersion = "1";

constexpr std::size_t kDimensions = 3;

ProblemSize size_member(const json& specification, const std::string& place) {
  ProblemSize size;
  const json* member = t1_member(specification, "ProblemSize");
  if (member == nullptr) return size;
  const json list = member->is_array() ? *member : json::array({*member});
  for (const json& extent : list) {
    const std::string what = place + ": ProblemSize";
    size.push_back(whole_number(t1_scalar(extent, false, what), {}, {}, what));
    if (size.back() < 1) t1_error(what, fmt::format("{} is too small; it must be at least 1", size.back()));
  }
  if (size.size() > kDimensions) t1_error(place, "ProblemSize has more than three dimensions");
  return size;
}

// What a problem line can hold: letters, digits, _ . and -.
std::string line_word(const std::string& name) {
  std::string word = name;
  for (char& c : word) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-') c = '_';
  }
  return word;
}

// The knobs' values, where they do not depend on the device: one is a number, several are a list.
void knob_names(const SearchSpace& space, Names& names, ListNames& lists) {
  for (const KnobDeclaration& knob : space.knobs()) {
    std::vector<Value> values;
    try {
      for (const Expression& expression : knob.values) {
        for (Value& value : expression.evaluate_list(names)) values.push_back(std::move(value));
      }
    } catch (const UserError&) {
      continue;
    }
    if (values.size() == 1) {
      names[knob.name] = values.front();
    } else {
      lists[knob.name] = values;
    }
  }
}

std::string define_lines(const Configuration& configuration, const Problem& problem) {
  std::string text;
  for (const auto& [knob, value] : configuration.knobs()) {
    const auto* flag = std::get_if<bool>(&value);
    text += fmt::format("#define {} {}\n", knob, flag ? (*flag ? "1" : "0") : to_string(value));
  }
  constexpr const char* kNames[] = {"Z", "Y", "X"};
  for (std::size_t i = 0; i < kDimensions; ++i)
    text += fmt::format("#define KW_PROBLEM_SIZE_{} {}\n", kNames[i], problem.in[i]);
  return text;
}

constexpr std::string_view kBlockFunction = "knobwise_block";

std::string scalar_type(const UserArgument& argument, const std::string& place) {
  const ElementType& type = argument.type;
  if (type.components != 1 || type.kind == ElementType::Kind::half)
    t1_error(place, fmt::format("a scalar of type {} is not supported in C++", type.name));
  if (type.kind == ElementType::Kind::real) return type.component_bytes == 4 ? "float" : "double";
  constexpr const char* kWords[] = {"char", "short", "int", "long"};
  const std::size_t word = type.component_bytes == 8 ? 3 : type.component_bytes / 2;
  return fmt::format("{} {}", type.kind == ElementType::Kind::integer ? "signed" : "unsigned", kWords[word]);
}

// The index of a block, for C++ kernels under the names that it has in CUDA.
std::string block_index(const LaunchShape::Extents& extents) {
  return fmt::format(
      "struct KwIndex {{ unsigned x, y, z; }};\n"
      "static thread_local KwIndex blockIdx;\n"
      "static constexpr KwIndex gridDim{{{}, {}, {}}};\n",
      extents.grid[0], extents.grid[1], extents.grid[2]);
}

// The function that the CPU backend calls for each block.
std::string block_function(const std::string& function, const std::vector<UserArgument>& arguments) {
  std::string call;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i > 0) call += ", ";
    call +=
        arguments[i].memory == UserArgument::Memory::scalar
            ? fmt::format("*static_cast<const {}*>(arguments[{}])", scalar_type(arguments[i], function), i)
            : fmt::format("KwPointer{{arguments[{}]}}", i);
  }
  return fmt::format(
      "\n#line 1 \"knobwise\"\n"
      "struct KwPointer {{\n"
      "  void* address;\n"
      "  template <class T> operator T*() const {{ return static_cast<T*>(address); }}\n"
      "}};\n"
      "extern \"C\" void {}(void* const* arguments, long long task) {{\n"
      "  (void)arguments;\n"
      "  blockIdx.x = unsigned(task % gridDim.x);\n"
      "  blockIdx.y = unsigned(task / gridDim.x % gridDim.y);\n"
      "  blockIdx.z = unsigned(task / gridDim.x / gridDim.y);\n"
      "  {}({});\n"
      "}}\n",
      kBlockFunction, function, call);
}

std::uint32_t launch_extent(std::int64_t value, const char* what) {
  if (value < 1 || value > std::numeric_limits<std::uint32_t>::max())
    throw TrialError("invalid", fmt::format("the {} of {} cannot be launched", what, value));
  return static_cast<std::uint32_t>(value);
}

}  // namespace

ProblemSize problem_size(const Problem& problem) {
  return {problem.in.rbegin(), problem.in.rbegin() + problem.rank};
}

std::string size_text(const ProblemSize& size) {
  std::string text;
  for (const std::int64_t extent : size) text += fmt::format("{}{}", text.empty() ? "" : "x", extent);
  return text;
}

ProblemSize parse_problem_size(std::string_view text, std::string_view option) {
  ProblemSize size;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, extent);
    if (error != std::errc() || rest != text.data() + end || extent < 1 || size.size() == kDimensions)
      throw UserError(
          fmt::format("{}: '{}' is no size; give one to three extents such as 4096x4096", option, text));
    size.push_back(extent);
    begin = end + 1;
  }
  return size;
}

UserKernel::Code UserKernel::read_code(const json& specification, const fs::path& folder,
                                       const std::string& place) {
  Code code;
  const std::string language = t1_text(specification, "Language");
  const std::string word = plain_word(language);
  if (word == "cuda") {
    code.backend = Backend::cuda;
  } else if (word != "c++" && word != "cpp" && word != "cxx") {
    t1_error(place, language.empty()
                        ? "it has no Language; use CUDA or C++"
                        : fmt::format("Language {} is not supported; use CUDA or C++", language));
  }
  code.function = t1_text(specification, "KernelName");
  if (code.function.empty()) t1_error(place, "it has no KernelName");
  const std::string file = t1_text(specification, "KernelFile");
  if (file.empty()) t1_error(place, "it has no KernelFile");
  code.path = folder / file;
  if (!fs::is_regular_file(code.path))
    t1_error(place, fmt::format("KernelFile {}: cannot be read; its path is relative to this file", file));
  code.source = read_source_file(code.path);
  if (const json* options = t1_member(specification, "CompilerOptions")) {
    if (!options->is_array()) t1_error(place, "CompilerOptions is not a list");
    for (const json& option : *options) {
      if (!option.is_string()) t1_error(place, "CompilerOptions: every option is a text");
      if (!option.get<std::string>().empty()) code.options.push_back(option.get<std::string>());
    }
  }
  code.options.push_back("-I" + fs::absolute(code.path).parent_path().lexically_normal().string());
  code.shape = LaunchShape::parse(specification, place);
  return code;
}

void UserKernel::read_arguments(const json& specification, const SearchSpace& space, const fs::path& folder,
                                const std::string& place) {
  const json* list = t1_member(specification, "Arguments");
  if (list == nullptr || !list->is_array()) t1_error(place, "it has no list of Arguments");
  Names names;
  for (const auto& [name, value] : problem_constants(problem_)) names[name] = value;
  ListNames lists{{"ProblemSize", {size_.begin(), size_.end()}}};
  knob_names(space, names, lists);
  for (const json& argument : *list) {
    const std::string name = t1_text(argument, "Name");
    arguments_.push_back(UserArgument::parse(
        argument, folder, names, lists,
        fmt::format("{}: argument {}", place, name.empty() ? std::to_string(arguments_.size() + 1) : name)));
    if (code_.backend == Backend::cpu && arguments_.back().memory == UserArgument::Memory::symbol)
      t1_error(place, fmt::format("argument {}: constant memory is for CUDA", name));
  }
  const bool marked = std::any_of(arguments_.begin(), arguments_.end(),
                                  [](const UserArgument& argument) { return argument.output; });
  for (UserArgument& argument : arguments_) {
    if (!marked) argument.output = argument.writable;
    argument.writable = argument.writable || argument.output;
  }
  if (std::none_of(arguments_.begin(), arguments_.end(),
                   [](const UserArgument& argument) { return argument.output; }))
    t1_error(place, "no argument is an output; mark one with \"Output\": 1");
}

void UserKernel::read_references(const json& specification, const fs::path& folder,
                                 const std::string& place) {
  const json* list = t1_member(specification, "ReferenceArguments");
  if (list == nullptr) return;
  if (!list->is_array()) t1_error(place, "ReferenceArguments is not a list");
  for (const json& reference : *list) {
    const std::string target = t1_text(reference, "TargetName");
    const auto found = std::find_if(arguments_.begin(), arguments_.end(), [&](const UserArgument& argument) {
      return argument.name == target && argument.memory != UserArgument::Memory::scalar;
    });
    if (found == arguments_.end())
      t1_error(place, fmt::format("ReferenceArguments: no array has the TargetName `{}`", target));
    found->output = true;
    references_.push_back(
        {static_cast<std::size_t>(found - arguments_.begin()),
         ArgumentFill::parse(reference, folder, fmt::format("{}: reference of {}", place, target))});
    if (references_.back().fill.kind == ArgumentFill::Kind::none)
      t1_error(place, fmt::format("the reference of {} has no FillType", target));
  }
  for (const UserArgument& argument : arguments_) {
    const bool given = std::any_of(references_.begin(), references_.end(), [&](const ReferenceArgument& one) {
      return &arguments_[one.target] == &argument;
    });
    if (!references_.empty() && argument.output && !given)
      t1_error(place, fmt::format("output {} has no entry in ReferenceArguments", argument.name));
  }
}

// Everything but the space: another value of a knob makes no result stale.
void UserKernel::digest(const json& specification) {
  std::string all = fmt::format("{}\n{}\n", kHostVersion, specification.dump());
  all += source_digest(code_.source, code_.path.parent_path());
  if (reference_code_) all += source_digest(reference_code_->source, reference_code_->path.parent_path());
  const auto add_content = [&all](const ArgumentFill& fill) {
    if (fill.kind != ArgumentFill::Kind::file) return;
    const std::string content = read_source_file(fill.source);
    all += fmt::format("{:016x}", XXH3_64bits(content.data(), content.size()));
  };
  for (const UserArgument& argument : arguments_) add_content(argument.fill);
  for (const ReferenceArgument& reference : references_) add_content(reference.fill);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  hash_ = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::unique_ptr<UserKernel> UserKernel::load(const fs::path& file, const std::optional<ProblemSize>& size) {
  const std::string place = file.filename().string();
  const fs::path folder = file.parent_path();
  std::unique_ptr<UserKernel> kernel(new UserKernel);
  kernel->file_ = fs::absolute(file).lexically_normal();
  kernel->text_ = read_source_file(file);
  const SearchSpace space = SearchSpace::parse(kernel->text_, place);
  if (space.kernel_specification().is_null()) t1_error(place, "it has no KernelSpecification");
  const json& specification = space.kernel_specification();
  kernel->size_ = size ? *size : size_member(specification, place);
  const std::string word = line_word(space.name());
  kernel->problem_ = Problem::parse(
      fmt::format("user:{}{}{}", word, kernel->size_.empty() ? "" : " size=", size_text(kernel->size_)));
  kernel->name_ = "user:" + word;
  kernel->code_ = read_code(specification, folder, place);
  if (const json* reference = t1_member(specification, "ReferenceKernel")) {
    json merged = specification;
    merged.merge_patch(*reference);
    kernel->reference_code_ = read_code(merged, folder, place + ": ReferenceKernel");
    if (kernel->reference_code_->backend != kernel->code_.backend)
      t1_error(place, "ReferenceKernel must be in the Language of the kernel");
  }
  kernel->read_arguments(specification, space, folder, place);
  kernel->read_references(specification, folder, place);
  kernel->digest(specification);
  return kernel;
}

std::optional<std::string> UserKernel::unsupported_reason(const Problem& problem, const DeviceInfo&) const {
  if (problem == problem_) return std::nullopt;
  return fmt::format("it is the kernel of '{}' alone", problem_.to_string());
}

void UserKernel::add_arguments(KernelInstance& instance, KernelLaunch& launch) const {
  std::size_t buffers = 0;
  for (const UserArgument& argument : arguments_) {
    if (argument.memory == UserArgument::Memory::scalar) {
      std::string bytes(argument.type.bytes(), '\0');
      argument.fill.fill(bytes.data(), argument.type, argument.components(), 0);
      launch.arguments.push_back({Slot::scalar, launch.scalars.size()});
      launch.scalars.push_back(std::move(bytes));
      continue;
    }
    const BufferRef buffer{Slot::parameter, buffers++};
    const bool symbol = argument.memory == UserArgument::Memory::symbol;
    if (!symbol) launch.arguments.push_back(buffer);
    if (argument.constant && code_.backend == Backend::cuda)
      instance.constants.push_back({argument.name, buffer, argument.bytes(), symbol});
  }
}

KernelInstance UserKernel::instance_of(const Code& code, const Configuration& configuration,
                                       const DeviceInfo& device) const {
  Names names;
  for (const auto& [name, value] : problem_constants(problem_)) names[name] = value;
  for (const auto& [name, value] : device.constants()) names[name] = value;
  for (const auto& [name, value] : configuration.knobs()) names[name] = value;
  LaunchShape::Extents extents;
  try {
    extents = code.shape.evaluate(names, size_, code.backend);
  } catch (const UserError& error) {
    throw TrialError("invalid", error.what());
  }
  KernelInstance instance;
  instance.compiler_options = code.options;
  instance.source = fmt::format("// {}\n{}", source_digest(code.source, code.path.parent_path()),
                                define_lines(configuration, problem_));
  const std::string line = fmt::format("#line 1 \"{}\"\n", code.path.filename().string());
  KernelLaunch launch;
  for (std::size_t i = 0; i < kDimensions; ++i) launch.grid[i] = launch_extent(extents.grid[i], "grid");
  if (code.backend == Backend::cpu) {
    instance.source += block_index(extents) + line + code.source + block_function(code.function, arguments_);
    launch.function = kBlockFunction;
    __int128 blocks = 1;
    for (const std::int64_t extent : extents.grid) blocks *= extent;
    launch.grid = {
        launch_extent(static_cast<std::int64_t>(std::min<__int128>(blocks, std::int64_t{1} << 40)), "grid"),
        1, 1};
    launch.block[0] =
        launch_extent(code.shape.has_local_size() ? extents.block[0] : device.multiprocessors, "LocalSize");
  } else {
    instance.source += line + with_c_linkage(code.source, code.function);
    launch.function = code.function;
    for (std::size_t i = 0; i < kDimensions; ++i)
      launch.block[i] = launch_extent(extents.block[i], "LocalSize");
    launch.dynamic_shared_bytes =
        extents.shared_bytes == 0 ? 0 : launch_extent(extents.shared_bytes, "SharedMemory");
  }
  add_arguments(instance, launch);
  instance.run.push_back(std::move(launch));
  return instance;
}

KernelInstance UserKernel::instantiate(const Problem&, const Configuration& configuration,
                                       const DeviceInfo& device) const {
  return instance_of(code_, configuration, device);
}

KernelInstance UserKernel::reference_instance(const DeviceInfo& device) const {
  const BoundSpace space = bind_space(*this, problem_, device);
  return instance_of(reference_code_ ? *reference_code_ : code_, space.configuration(space.default_index()),
                     device);
}

std::string UserKernel::reference_description() const {
  return reference_code_ ? fmt::format("the reference kernel {}", reference_code_->function)
                         : "the default configuration";
}

}  // namespace knobwise
