# libknobwise, shared and static, with headers, CMake package and pkg-config file: component `runtime`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(knobwise_shared SHARED $<TARGET_OBJECTS:knobwise_runtime>)
target_link_libraries(knobwise_shared PRIVATE knobwise_flags knobwise_backends knobwise_db)
set(map ${CMAKE_CURRENT_SOURCE_DIR}/knobwise.map)
target_link_options(knobwise_shared PRIVATE -Wl,--version-script=${map} -Wl,--gc-sections)
if(NOT KNOBWISE_SANITIZE)
  # A sanitizer's run time is only linked into executables.
  target_link_options(knobwise_shared PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(knobwise_shared PROPERTIES
  OUTPUT_NAME knobwise
  EXPORT_NAME knobwise
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${map}
  VERSION ${PROJECT_VERSION}
  # Before 1.0 a minor version may change the interface, as the package's version file says too.
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(knobwise_shared INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/knobwise>)
target_compile_features(knobwise_shared INTERFACE cxx_std_20)

# The static library is one archive with everything but the C++ run time inside, which shows what the shared one does.
set(parts knobwise_runtime knobwise_backends knobwise_cuda knobwise_cpu knobwise_vendor_cpu knobwise_kernels
          knobwise_db knobwise_search_spaces knobwise_fmt)
set(script "CREATE libknobwise.a\n")
foreach(part IN LISTS parts)
  string(APPEND script "ADDLIB $<TARGET_FILE:${part}>\n")
endforeach()
string(APPEND script "ADDLIB ${KNOBWISE_SQLITECPP_LIBRARY}\nADDLIB ${KNOBWISE_SQLITE_LIBRARY}\nADDLIB ${KNOBWISE_ZSTD_LIBRARY}\nSAVE\nEND\n")
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/libknobwise.mri CONTENT "${script}")
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/libknobwise.a
  COMMAND ${CMAKE_AR} -M < libknobwise.mri
  COMMAND ${CMAKE_COMMAND} -DARCHIVE=libknobwise.a -DSHARED=$<TARGET_FILE:knobwise_shared> -DNM=${CMAKE_NM}
          -DREADELF=${CMAKE_READELF} -DOBJCOPY=${CMAKE_OBJCOPY} -P ${CMAKE_CURRENT_SOURCE_DIR}/own_symbols.cmake
  COMMAND ${CMAKE_RANLIB} libknobwise.a
  DEPENDS ${parts} knobwise_shared ${CMAKE_CURRENT_BINARY_DIR}/libknobwise.mri
          ${CMAKE_CURRENT_SOURCE_DIR}/own_symbols.cmake
  WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
  VERBATIM)
add_custom_target(knobwise_static ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/libknobwise.a)

# The headers keep their folders, so that they find one another as they do here.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/knobwise)
install(TARGETS knobwise_shared EXPORT knobwiseTargets LIBRARY COMPONENT runtime NAMELINK_COMPONENT runtime)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libknobwise.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/include/knobwise/dispatcher.h ${PROJECT_SOURCE_DIR}/include/knobwise/knobwise.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/knobwise COMPONENT runtime)
foreach(header IN ITEMS kernels/accuracy.h kernels/device_info.h kernels/problem.h search_spaces/user_error.h
                        search_spaces/value.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/knobwise/${folder}
          COMPONENT runtime)
endforeach()
install(EXPORT knobwiseTargets NAMESPACE knobwise:: DESTINATION ${package} COMPONENT runtime)
configure_package_config_file(knobwiseConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/knobwiseConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/knobwiseConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/knobwiseConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/knobwiseConfigVersion.cmake
        DESTINATION ${package} COMPONENT runtime)

# The file names the prefix, which is only known when the installation runs.
install(CODE "
  set(CMAKE_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
  set(CMAKE_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
  set(PROJECT_VERSION ${PROJECT_VERSION})
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/knobwise.pc.in
                 \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/knobwise.pc\" @ONLY)"
  COMPONENT runtime)
