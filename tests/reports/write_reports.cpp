// Writes the reports that the browser tests open: write_reports FOLDER
#include <filesystem>
#include <iostream>

#include "reports/report.h"
#include "tests/reports/databases.h"

int main(int argc, char** argv) {
  using namespace knobwise;
  namespace fs = std::filesystem;
  if (argc != 2) {
    std::cerr << "usage: write_reports FOLDER\n";
    return 2;
  }
  const fs::path folder = argv[1];
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, const auto& make) {
    const fs::path database = folder / (name + ".db");
    make(database);
    ReportOptions options;
    options.title = name == "hostile" ? "</title><script>window.injected = 5</script> 📈" : "knobwise report";
    write_report({database}, options, folder / (name + ".html"));
  };
  write("sweep", [](const fs::path& path) { report_tests::make_sweep(path); });
  write("large", [](const fs::path& path) { report_tests::make_sweep(path, 26'700); });
  write("empty", report_tests::make_empty);
  write("only_failures", report_tests::make_only_failures);
  write("one_trial", report_tests::make_one_trial);
  write("changed_source", report_tests::make_changed_source);
  write("hostile", report_tests::make_hostile);
  return 0;
}
