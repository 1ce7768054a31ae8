// Stands for the SQLite that an application brings: it is the application's alone.
#include <cstdlib>

extern "C" int sqlite3_open_v2(const char*, void**, int, const char*) {
  std::abort();
}
