// Source text compiled by the host's compiler and loaded: how generated code is tested.
#pragma once

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace knobwise {

/// A shared object made of C++ text; unloaded and deleted on destruction.
class HostLibrary {
 public:
  explicit HostLibrary(const std::string& source) {
    std::string pattern = (std::filesystem::temp_directory_path() / "knobwise_test_XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    std::ofstream(folder_ + "/source.cpp") << source;
    const std::string command = "c++ -std=c++17 -O3 -Wall -Wextra -Werror -shared -fPIC -o " + folder_ +
                                "/library.so " + folder_ + "/source.cpp";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("does not compile:\n" + source);
    handle_ = dlopen((folder_ + "/library.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw std::runtime_error(dlerror());
  }
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;
  ~HostLibrary() {
    if (handle_) dlclose(handle_);
    std::filesystem::remove_all(folder_);
  }

  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  std::string folder_;
  void* handle_ = nullptr;
};

}  // namespace knobwise
