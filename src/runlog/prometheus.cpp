#include "runlog/prometheus.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"

namespace lmtrain {
namespace {

// Every file that PrometheusFile writes begins so.
constexpr std::string_view kFirstWords = "# HELP lmtrain_";

namespace fs = std::filesystem;

std::string label_value(const std::string& text) {
  std::string value;
  for (const char c : replacing_malformed(text)) {
    if (c == '\\' || c == '"') value += '\\';
    value += c == '\n' ? "\\n" : std::string(1, c);
  }
  return value;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return printed("%.12g", value);
}

}  // namespace

PrometheusFile::PrometheusFile(fs::path path, const std::string& run, const std::string& host)
    : path_(std::move(path)),
      labels_(str("{run=\"", label_value(run), "\",host=\"", label_value(host), "\"} ")) {}

void PrometheusFile::write(const PrometheusFigures& figures) const {
  std::string text;
  const auto add = [&](const char* name, const char* help, const std::string& value) {
    text += str(kFirstWords, name, " ", help, "\n# TYPE lmtrain_", name, " gauge\nlmtrain_", name,
                labels_, value, "\n");
  };
  const auto add_number = [&](const char* name, const char* help,
                              const std::optional<double>& value) {
    if (value) add(name, help, number(*value));
  };
  // Steps and tokens go back after a rollback, so they are no counters.
  add("step", "Updates applied.", str(figures.step));
  add("tokens", "Targets of the applied updates.", str(figures.tokens));
  add_number("loss", "Loss of the last update, in nats a target.", figures.loss);
  add_number("eval_loss", "Held-out loss of the last evaluation, in nats a target.",
             figures.eval_loss);
  add_number("tokens_per_second", "Targets a second of the last update.",
             figures.tokens_per_second);
  add_number("lr", "Learning rate of the last update.", figures.lr);
  add_number("grad_norm", "Gradient norm of the last update, before clipping.", figures.grad_norm);
  if (figures.last_step_time) {
    add("last_step_timestamp_seconds", "Time of the last update, in seconds since 1970.",
        printed("%.3f", *figures.last_step_time));
  }
  replace_file_unsynced(path_, text);
}

void PrometheusFile::refresh(const PrometheusFigures& figures) {
  try {
    write(figures);
    has_failed_ = false;
  } catch (const Error& error) {
    if (!std::exchange(has_failed_, true))
      log_warning(str(error.what(), " (log.prometheus); the run goes on without it"));
  }
}

void require_prometheus_writable(const LogConfig& config) {
  if (!config.prometheus) return;
  const fs::path path = absolute_path(*config.prometheus);
  const fs::path folder = path.parent_path();
  const auto refuse = [&](ErrorKind kind, const std::string& what) {
    throw Error(kind, str("/log/prometheus: ", path.string(), ": ", what));
  };
  const FileInfo info = examine(path);
  if (!path.has_filename() || info.kind == FileKind::kFolder)
    refuse(ErrorKind::kUsage, "this is a folder; give a file in it, such as lmtrain.prom");
  if (!is_folder(folder)) {
    refuse(ErrorKind::kUsage,
           str("there is no folder ", folder.string(), "; create it, or give another path"));
  }
  if (info.kind != FileKind::kMissing && info.kind != FileKind::kFile)
    refuse(ErrorKind::kUsage, "this is no regular file, and would be replaced; give another path");
  if (info.kind == FileKind::kFile && info.size > 0 && !file_begins_with(path, kFirstWords)) {
    refuse(ErrorKind::kUsage,
           "this file has no figures of lmtrain, and would be replaced; give another path");
  }
  // The file is replaced, so the folder has to be writable.
  if (const std::string why = why_not_writable(folder); !why.empty()) {
    refuse(ErrorKind::kIo, str("cannot write to ", folder.string(), ": ", why,
                               "; check its permissions, or give another path"));
  }
}

}  // namespace lmtrain
