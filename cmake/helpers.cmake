# Flags and target helpers shared by every folder.
add_library(knobwise_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_library.cpp)

add_library(knobwise_flags INTERFACE)
target_compile_options(knobwise_flags INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlaps inside std::string's own concatenation (its bug 105651).
  target_compile_options(knobwise_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(knobwise_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(knobwise_flags INTERFACE KNOBWISE_VERSION="${PROJECT_VERSION}")
target_link_libraries(knobwise_flags INTERFACE knobwise_fmt)
if(KNOBWISE_FUZZ)
  target_compile_options(knobwise_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(KNOBWISE_SANITIZE)
  target_compile_options(knobwise_flags INTERFACE -fsanitize=${KNOBWISE_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(knobwise_flags INTERFACE -fsanitize=${KNOBWISE_SANITIZE})
endif()

# knobwise_library(NAME sources... LINK libraries...)
# A static library of one folder; include paths start at the project root ("db/store.h").
function(knobwise_library name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC knobwise_flags ${arg_LINK})
endfunction()

# knobwise_embed(TARGET VARIABLE-PREFIX files...)
# Makes every file available in TARGET as text through cmake-generated source: a header `embedded/PREFIX.h` declares
#   const std::vector<std::pair<std::string_view, std::string_view>>& PREFIX();   // (file name, content)
function(knobwise_embed target prefix)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded)
  set(files "")
  foreach(file IN LISTS ARGN)
    get_filename_component(absolute ${file} ABSOLUTE)
    list(APPEND files ${absolute})
  endforeach()
  add_custom_command(
    OUTPUT ${out}/${prefix}.cpp ${out}/${prefix}.h
    COMMAND ${CMAKE_COMMAND} -DPREFIX=${prefix} -DOUT=${out} "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${out}/${prefix}.cpp ${out}/${prefix}.h)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()

# knobwise_test(NAME sources... LINK libraries... [LABELS labels...] [TIMEOUT seconds])
# One GoogleTest binary whose cases are CTest tests, each in a process of its own that starts in the project root, so that
# `../shared/...` is found from there. A case that skips counts as skipped, not as passed.
function(knobwise_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LINK;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE knobwise_flags ${arg_LINK} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(properties TIMEOUT ${arg_TIMEOUT} SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  if(arg_LABELS)
    list(APPEND properties LABELS ${arg_LABELS})
  endif()
  gtest_discover_tests(${name}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    TEST_PREFIX ${name}.
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES ${properties})
endfunction()
