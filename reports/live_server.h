// Serves a report that follows its databases, over HTTP.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "reports/report.h"

namespace knobwise {

/// Where to serve.
struct LivePlace {
  std::string address = "127.0.0.1";  ///< Of an interface of this machine; "0.0.0.0" and "::" mean all.
  std::uint16_t port = 0;             ///< 0 takes any that is free.
};

/// Serves from its construction to its destruction, on threads of its own, to several viewers at once.
///
/// There are two addresses, "/" (the page) and "/data" (what it shows, with an entity tag); no part of a
/// request ever names a file. Only GET and HEAD are answered, and only under the names of this machine: the
/// `Host` of a request must be an IP address, "localhost" or the host name, so that a page of another site,
/// whose name was made to lead here, reads nothing. Other sites may not embed or read the answers.
class LiveServer {
 public:
  /// Reads the databases, then listens. Throws UserError as write_report() does, for what is no IP address,
  /// for an address of another machine, and for a port that is taken.
  LiveServer(std::vector<std::filesystem::path> databases, const ReportOptions& options,
             const LivePlace& place = {});
  /// Closes every connection.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  /// The one that was free, if any was wanted.
  std::uint16_t port() const;
  /// "http://127.0.0.1:8080/", to be opened.
  std::string url() const;
  /// False when only this machine can connect.
  bool open_to_others() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace knobwise
