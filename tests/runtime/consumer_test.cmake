# Installs the runtime into a folder of its own, then builds and runs applications against that copy: with CMake in
# C++ (shared and static) and C, and with pkg-config. Needs BUILD (this project's build folder), SOURCE and WORK.
function(check)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
set(ENV{KNOBWISE_CACHE} ${WORK}/code)
check(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component runtime)
foreach(project IN ITEMS . c)
  check(${CMAKE_COMMAND} -S ${SOURCE}/tests/runtime/consumer/${project} -B ${WORK}/build/${project}
        -DCMAKE_PREFIX_PATH=${WORK}/prefix -DEXAMPLES=${SOURCE}/examples -DCMAKE_BUILD_TYPE=Release)
  check(${CMAKE_COMMAND} --build ${WORK}/build/${project})
endforeach()
foreach(program IN ITEMS consumer_cpp consumer_static consumer_sqlite c/consumer_c c/consumer_c_static)
  check(${WORK}/build/${program})
  if(NOT output MATCHES "family_default")
    message(FATAL_ERROR "${program} does not say how its kernel was found:\n${output}")
  endif()
endforeach()

# The README prints the example that was just built.
file(READ ${SOURCE}/examples/minimal.cpp example)
file(READ ${SOURCE}/README.md readme)
string(FIND "${readme}" "${example}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/minimal.cpp as it is")
endif()

find_program(pkg_config pkg-config)
if(pkg_config)
  file(GLOB_RECURSE description ${WORK}/prefix/knobwise.pc)
  cmake_path(GET description PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  check(sh -c "cc ${SOURCE}/tests/runtime/consumer/main.c -o ${WORK}/by_pkg_config $(${pkg_config} --cflags --libs knobwise) -Wl,-rpath,$(${pkg_config} --variable=libdir knobwise)")
  check(${WORK}/by_pkg_config)
  # No warning comes from the headers, whatever an application asks for.
  set(warnings "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror")
  check(sh -c "c++ -std=c++20 ${warnings} ${SOURCE}/examples/minimal.cpp -o ${WORK}/by_pkg_config_cpp $(${pkg_config} --cflags --libs knobwise) -Wl,-rpath,$(${pkg_config} --variable=libdir knobwise)")
  check(${WORK}/by_pkg_config_cpp)
  check(sh -c "cc ${SOURCE}/tests/runtime/consumer/main.c -o ${WORK}/by_pkg_config_static $(${pkg_config} --cflags knobwise) -Wl,-Bstatic $(${pkg_config} --libs knobwise) -Wl,-Bdynamic $(${pkg_config} --static --libs knobwise | sed s/-lknobwise//)")
  check(sh -c "! ldd ${WORK}/by_pkg_config_static | grep knobwise")
  check(${WORK}/by_pkg_config_static)
  check(${pkg_config} --modversion knobwise)
  if(NOT output MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+\n$")
    message(FATAL_ERROR "pkg-config does not know the version: ${output}")
  endif()
endif()

# Nothing but the interface is visible.
file(GLOB_RECURSE libraries ${WORK}/prefix/libknobwise.so)
check(nm -DC --defined-only ${libraries})
string(REGEX MATCHALL "[^\n]*(sqlite3_|SQLite::|spdlog|nlohmann|fmt::v|knobwise::Store|runtime_detail::|::Impl::)[^\n]*" leaks
       "${output}")
if(leaks)
  message(FATAL_ERROR "symbols that are no part of the interface are visible: ${leaks}")
endif()

# The static library shows the same.
file(GLOB_RECURSE archives ${WORK}/prefix/libknobwise.a)
check(sh -c "nm -D --defined-only -j ${libraries} | sort -u > ${WORK}/shared && nm -g --defined-only -j ${archives} | grep -v -e ':$' -e '[.]knobwise$' -e '^DW[.]ref[.]' | sort -u | comm -23 - ${WORK}/shared")
if(NOT output MATCHES "^(nm: [^\n]*: no symbols\n)*$")
  message(FATAL_ERROR "symbols that are no part of the interface are visible: ${output}")
endif()

# It needs the C++ run time and nothing else: the driver and compilers are found when they are wanted.
check(readelf -d ${libraries})
string(REGEX MATCHALL "NEEDED[^\n]*\\[[^]]*\\]" needed "${output}")
list(FILTER needed EXCLUDE REGEX "\\[(libstdc\\+\\+|libm|libgcc_s|libc|libpthread|libdl|ld-linux[^.]*)\\.so")
if(needed)
  message(FATAL_ERROR "the library needs more than the C++ run time: ${needed}")
endif()

# Nothing of the tuner, the report or a command line is inside, visible or not.
foreach(library IN LISTS libraries archives)
  check(sh -c "nm -C --defined-only ${library} | grep -q knobwise::Dispatcher::plan")
  execute_process(
    COMMAND sh -c "nm -C --defined-only ${library} | grep -m 3 -E 'knobwise::(Strategy|tune[(]|write_report|cli::|SessionListener)|boost::'"
    OUTPUT_VARIABLE foreign ERROR_QUIET)
  if(foreign)
    message(FATAL_ERROR "${library} holds what no application needs: ${foreign}")
  endif()
endforeach()
