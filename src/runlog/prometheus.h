// Writes the newest figures of a run into a text file in Prometheus' exposition format
// (log.prometheus), which the textfile collector of node_exporter reads. Each figure has the labels
// run and host.
//
// Source: prometheus.io/docs/instrumenting/exposition_formats
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "config/config.h"

namespace lmtrain {

// Holds the figures after a step. The file leaves out figures without a value.
struct PrometheusFigures {
  int64_t step = 0, tokens = 0;
  std::optional<double> loss{}, eval_loss{}, grad_norm{}, lr{}, tokens_per_second{};
  std::optional<double> last_step_time{};  // of the last update, in seconds since 1970
};

class PrometheusFile {
 public:
  // `run` and `host` are the values of the labels; invalid UTF-8 becomes U+FFFD. Writes nothing
  // yet.
  PrometheusFile(std::filesystem::path path, const std::string& run, const std::string& host);

  // Replaces the file atomically, without a sync. Throws Error(kIo).
  void write(const PrometheusFigures& figures) const;
  // Does the same, but never throws Error: it warns of the first failure of several in a row.
  void refresh(const PrometheusFigures& figures);

 private:
  std::filesystem::path path_;
  std::string labels_;  // {run="...",host="..."}
  bool has_failed_ = false;
};

// Checks that the file of log.prometheus can be written; passes without log.prometheus. Throws:
//   Error(kUsage)  its folder is missing or no folder, or its path is no regular file
//   Error(kIo)     the system does not let this process write there
void require_prometheus_writable(const LogConfig& config);

}  // namespace lmtrain
