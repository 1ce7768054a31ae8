// Compiled code on disk: found again, never trusted when damaged, bounded, shared.
#include "kernels/code_cache.h"

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "tests/runtime/fixture.h"

namespace knobwise::test {
namespace {

class CodeCacheTest : public RuntimeTest {
 protected:
  static KernelInstance instance(const std::string& source) {
    KernelInstance made;
    made.source = source;
    return made;
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder() / "code"))
      all.push_back(entry.path());
    return all;
  }
};

TEST_F(CodeCacheTest, CompilesOnceForEachSourceCompilerItsOptionsAndArchitecture) {
  const CodeCache cache(folder() / "code");
  DeviceInfo target = machine().info;
  const auto get = [&](const char* source) { return cache.get_or_compile(instance(source), target).image; };
  EXPECT_EQ(get("one"), "one");
  EXPECT_EQ(get("one"), "one");
  EXPECT_EQ(machine().compiles, 1);
  EXPECT_EQ(get("two"), "two");
  EXPECT_EQ(machine().compiles, 2);
  machine().compiler_version = "testc 2.0";
  get("one");
  EXPECT_EQ(machine().compiles, 3);
  target.architecture = "test-128";
  get("one");
  EXPECT_EQ(machine().compiles, 4);
  machine().compile_options = "testc -O3";
  get("one");
  EXPECT_EQ(machine().compiles, 5);
  EXPECT_EQ(cache.info().files, 5);
}

TEST_F(CodeCacheTest, DamagedFilesAreCompiledAnew) {
  const CodeCache cache(folder() / "code");
  const std::string source(1000, 'x');
  cache.get_or_compile(instance(source), machine().info);
  ASSERT_EQ(files().size(), 1u);
  const auto path = files()[0];
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t at : {std::uintmax_t{0}, size / 2, size - 1}) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('\xEE');
    file.close();
    const int compiles = machine().compiles;
    EXPECT_EQ(cache.get_or_compile(instance(source), machine().info).image, source);
    EXPECT_EQ(machine().compiles, compiles + 1) << "byte " << at;
  }
  for (std::uintmax_t bytes : {std::uintmax_t{0}, std::uintmax_t{10}, size - 1}) {
    std::filesystem::resize_file(path, bytes);
    EXPECT_EQ(cache.get_or_compile(instance(source), machine().info).image, source) << bytes << " bytes";
  }
}

TEST_F(CodeCacheTest, AFileUnderAnotherNameIsCompiledAnew) {
  const CodeCache cache(folder() / "code");
  for (const char* source : {"one", "two"}) cache.get_or_compile(instance(source), machine().info);
  const auto paths = files();
  ASSERT_EQ(paths.size(), 2u);
  std::filesystem::rename(paths[0], folder() / "kept");
  std::filesystem::rename(paths[1], paths[0]);
  std::filesystem::rename(folder() / "kept", paths[1]);
  for (const char* source : {"one", "two"})
    EXPECT_EQ(cache.get_or_compile(instance(source), machine().info).image, source);
  EXPECT_EQ(machine().compiles, 4);
}

TEST_F(CodeCacheTest, AFolderThatCannotBeWrittenCostsOnlyTime) {
  std::ofstream(folder() / "file") << "in the way";
  const CodeCache cache(folder() / "file" / "code");
  EXPECT_EQ(cache.get_or_compile(instance("one"), machine().info).image, "one");
  EXPECT_EQ(cache.get_or_compile(instance("one"), machine().info).image, "one");
  EXPECT_EQ(machine().compiles, 2);
}

TEST_F(CodeCacheTest, StaysNearItsLimit) {
  const CodeCache cache(folder() / "code", 20'000);
  for (int i = 0; i < 200; ++i) {
    cache.get_or_compile(instance(std::to_string(i) + std::string(500, ' ')), machine().info);
  }
  // The folder is listed every 64th time, so as many files may come on top.
  EXPECT_LT(cache.info().bytes, 20'000 + 64 * 700);
  EXPECT_GT(cache.clear(), 0);
  EXPECT_EQ(cache.info().files, 0);
}

TEST_F(CodeCacheTest, WhatAKilledProcessLeftHalfWrittenIsCountedAndCleared) {
  const CodeCache cache(folder() / "code");
  cache.get_or_compile(instance("one"), machine().info);
  const auto whole = files().at(0);
  std::ofstream(whole.string() + ".12345.0") << "half";
  EXPECT_EQ(cache.info().files, 2);
  EXPECT_EQ(cache.clear(), 2);
  EXPECT_TRUE(files().empty());
}

// What lies in the folder is run: it must be the user's own, also where a service has no HOME.
TEST_F(CodeCacheTest, WithoutAnyVariableLiesInTheUsersHome) {
  std::map<const char*, std::string> before;
  for (const char* name : {"KNOBWISE_CACHE", "XDG_CACHE_HOME", "HOME"}) {
    if (const char* value = std::getenv(name)) before[name] = value;
    unsetenv(name);
  }
  const std::filesystem::path folder = CodeCache::default_folder();
  for (const auto& [name, value] : before) setenv(name, value.c_str(), 1);
  EXPECT_EQ(folder, std::filesystem::path(getpwuid(geteuid())->pw_dir) / ".cache" / "knobwise");
}

TEST_F(CodeCacheTest, ThreadsShareAFolder) {
  const CodeCache cache(folder() / "code");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const std::string source = std::to_string(i % 5) + std::string(2000, 'y');
        if (cache.get_or_compile(instance(source), machine().info).image != source) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files().size(), 5u) << "no temporary file is left";
}

}  // namespace
}  // namespace knobwise::test
