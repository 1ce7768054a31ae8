#include "kernels/user/kernel_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/user_kernels/files.h"

namespace knobwise::test {
namespace {

TEST(CLinkage, IsGivenToEveryDeclarationOfTheKernel) {
  EXPECT_EQ(with_c_linkage("__global__ void f(int);\n__global__ void f(int x) { }", "f"),
            "extern \"C\" __global__ void f(int);\nextern \"C\" __global__ void f(int x) { }");
  EXPECT_EQ(with_c_linkage("__global__ void __launch_bounds__(a * b)\nf (float* x) {}", "f"),
            "extern \"C\" __global__ void __launch_bounds__(a * b)\nf (float* x) {}");
}

TEST(CLinkage, IsNotGivenToAnythingElse) {
  for (const char* text :
       {"__global__ void ff(int) {} __device__ void f(int) {}", "__global__ void g() { f(); }",
        "__global__ void g(); int f(int x);", "__global__ void xf(int) {}", "int f = 1;", "// f", "f",
        "extern \"C\" { __global__ void f(int) {} }"})
    EXPECT_EQ(with_c_linkage(text, "f"), text);
}

TEST(SourceDigest, FollowsIncludesByQuotes) {
  const KernelFolder folder;
  const std::string text = "#include \"a.h\"\n# include <vector>\n#include \"missing.h\"\nint x;\n";
  folder.write("a.h", std::string("#include \"b.h\"\n#include \"a.h\"\n"));
  folder.write("b.h", std::string("int b;\n"));
  const std::string before = source_digest(text, folder.path());
  EXPECT_EQ(source_digest(text, folder.path()), before);
  folder.write("b.h", std::string("int c;\n"));
  EXPECT_NE(source_digest(text, folder.path()), before);
}

}  // namespace
}  // namespace knobwise::test
