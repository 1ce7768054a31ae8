# Third-party libraries. They are linked statically (or used as headers), so that the executable runs on a machine
# that has none of them; the C++ run time and CUDA are the exceptions.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
set(ZLIB_USE_STATIC_LIBS ON)
find_library(ZLIB_LIBRARY NAMES libz.a REQUIRED)
find_package(ZLIB REQUIRED)

find_library(KNOBWISE_SQLITE_LIBRARY NAMES libsqlite3.a REQUIRED)
find_library(KNOBWISE_SQLITECPP_LIBRARY NAMES libSQLiteCpp.a REQUIRED)
find_library(KNOBWISE_ZSTD_LIBRARY NAMES libzstd.a REQUIRED)
find_path(KNOBWISE_SQLITECPP_INCLUDE SQLiteCpp/SQLiteCpp.h REQUIRED)

add_library(knobwise_sqlite INTERFACE)
target_include_directories(knobwise_sqlite SYSTEM INTERFACE ${KNOBWISE_SQLITECPP_INCLUDE})
target_link_libraries(knobwise_sqlite INTERFACE ${KNOBWISE_SQLITECPP_LIBRARY} ${KNOBWISE_SQLITE_LIBRARY}
                      Threads::Threads ${CMAKE_DL_LIBS} m)

# xxHash is header-only with XXH_INLINE_ALL.
find_path(KNOBWISE_XXHASH_INCLUDE xxhash.h REQUIRED)

# The CUDA backend needs only the headers of the toolkit; the driver and NVRTC are loaded at run time.
find_path(KNOBWISE_CUDA_INCLUDE cuda.h
          HINTS ${CUDAToolkit_ROOT}/include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
