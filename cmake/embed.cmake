# Writes ${OUT}/${PREFIX}.h and .cpp, which hold the text of FILES as string literals.
# A literal is cut every 8000 characters: compilers limit the length of one.
set(header "#pragma once\n#include <string_view>\n#include <utility>\n#include <vector>\n\n")
string(APPEND header "/// The embedded files as (file name, content); valid for the life of the program.\n")
string(APPEND header "const std::vector<std::pair<std::string_view, std::string_view>>& ${PREFIX}();\n")
file(WRITE ${OUT}/${PREFIX}.h "${header}")

set(body "#include \"${PREFIX}.h\"\n\n#include <string>\n\n")
string(APPEND body "const std::vector<std::pair<std::string_view, std::string_view>>& ${PREFIX}() {\n")
string(APPEND body "  static const std::vector<std::pair<std::string_view, std::string_view>> files = {\n")
set(delimiter "kw_embed")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} content HEX)
  string(LENGTH "${content}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" escaped "${content}")
  # 400 bytes a line: adjacent literals join.
  string(REGEX REPLACE "((\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..))" "\\1\"\n      \"" escaped "${escaped}")
  string(APPEND body "    {\"${name}\", std::string_view(\"${escaped}\", ${bytes})},\n")
endforeach()
string(APPEND body "  };\n  return files;\n}\n")
file(WRITE ${OUT}/${PREFIX}.cpp "${body}")
