// Keeps a text file in Prometheus' exposition format (log.prometheus), which the textfile collector
// of node_exporter reads: the newest figures of a run, each with the labels run and host.
//
// Source: prometheus.io/docs/instrumenting/exposition_formats
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "config/config.h"

namespace lmtrain {

// The figures after a step. Those without a value are left out of the file.
struct PrometheusFigures {
  int64_t step = 0, tokens = 0;
  std::optional<double> loss{}, eval_loss{}, grad_norm{}, lr{}, tokens_per_second{};
  std::optional<double> last_step_time{};  // of the last update, in seconds since 1970
};

class PrometheusFile {
 public:
  // `run` and `host` are the values of the labels; bytes that are no UTF-8 become U+FFFD. Writes
  // nothing yet.
  PrometheusFile(std::filesystem::path path, const std::string& run, const std::string& host);

  // Replaces the file, so that a reader sees the old figures or the new ones. Throws Error(kIo).
  void write(const PrometheusFigures& figures) const;
  // Does the same, but never throws Error: the first failure of several in a row is a warning.
  void refresh(const PrometheusFigures& figures);

 private:
  std::filesystem::path path_;
  std::string labels_;  // {run="...",host="..."}
  bool has_failed_ = false;
};

// Throws Error where the file of log.prometheus cannot be written: Error(kUsage) when its folder is
// missing or is no folder, or what is at the path is no regular file; Error(kIo) when the system
// does not let this process write there. Does nothing without log.prometheus.
void require_prometheus_writable(const LogConfig& config);

}  // namespace lmtrain
