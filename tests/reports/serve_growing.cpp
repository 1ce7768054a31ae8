// Serves a report of a session that goes on: serve_growing DATABASE
// Prints the address; every number on standard input stores so many more trials. Ends with its input.
#include <iostream>

#include "reports/live_server.h"
#include "tests/reports/databases.h"

int main(int argc, char** argv) {
  using namespace knobwise;
  if (argc != 2) {
    std::cerr << "usage: serve_growing DATABASE\n";
    return 2;
  }
  report_tests::RunningSearch search(argv[1]);
  search.add(30);
  const LiveServer server({argv[1]}, {});
  std::cout << server.url() << std::endl;
  for (std::size_t trials = 0; std::cin >> trials;) search.add(trials);
  return 0;
}
