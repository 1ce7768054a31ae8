# Gives every symbol of ARCHIVE that SHARED does not show a name that no other library has, so that an application may
# link other copies of what is inside: SQLite, fmt, spdlog. Needs NM, READELF and OBJCOPY too.
function(lines_of result)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE ignored COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${output}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

lines_of(shown ${NM} -D --defined-only -j ${SHARED})
lines_of(names ${NM} -g --defined-only -j ${ARCHIVE})
list(FILTER names EXCLUDE REGEX ":$")
# A group of sections that a linker takes once goes by the name of a symbol that need not be defined.
lines_of(groups ${READELF} -gW ${ARCHIVE})
list(FILTER groups INCLUDE REGEX "^COMDAT")
list(TRANSFORM groups REPLACE ".*\\[([^]]*)\\] contains.*" "\\1")
list(APPEND names ${groups})
list(FILTER names EXCLUDE REGEX "^DW\\.ref\\.")
list(REMOVE_DUPLICATES names)
list(REMOVE_ITEM names ${shown})
list(TRANSFORM names REPLACE "(.+)" "\\1 \\1.knobwise")
list(JOIN names "\n" map)
file(WRITE ${ARCHIVE}.symbols "${map}\n")
execute_process(COMMAND ${OBJCOPY} --redefine-syms=${ARCHIVE}.symbols ${ARCHIVE} COMMAND_ERROR_IS_FATAL ANY)
