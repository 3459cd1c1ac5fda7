#include "checkpoint/run_config.h"

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/text.h"
#include "config/digest.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Those kept, by their number.
std::map<int64_t, fs::path> kept_configs(const RunFolder& run) {
  std::map<int64_t, fs::path> files;
  for (const std::string& name : list_folder_if_there(run.config_history())) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && std::string_view(end).starts_with("_step_") &&
        name.ends_with(".json"))
      files[number] = run.config_history() / name;
  }
  return files;
}

std::optional<fs::path> last_kept(const RunFolder& run) {
  const std::map<int64_t, fs::path> kept = kept_configs(run);
  return kept.empty() ? std::nullopt : std::optional(kept.rbegin()->second);
}

void keep(const RunFolder& run, const std::string& text, int64_t step) {
  const std::map<int64_t, fs::path> kept = kept_configs(run);
  if (!kept.empty() && read_file(kept.rbegin()->second) == text) return;
  const int64_t number = kept.empty() ? 1 : kept.rbegin()->first + 1;
  lmtrain::create_directories(run.config_history());
  write_file_atomic(run.config_history() / str(printed("%04.0f", static_cast<double>(number)), "_",
                                               step_name(step), ".json"),
                    text);
}

// "/optimizer/lr is 0.1, was 0.001" for each value of the file that the last kept config has
// otherwise; empty when that cannot be said.
std::string differences(const std::string& text, const fs::path& kept) {
  const std::string former = read_file(kept);
  if (seal_of(former) != Seal::kGood) return "";
  const auto flat = [](const std::string& json) {
    return nlohmann::json::parse(json, nullptr, false, /*ignore_comments=*/true).flatten();
  };
  const nlohmann::json now = flat(text);
  const nlohmann::json then = flat(former);
  std::vector<std::string> found;
  const auto value = [](const nlohmann::json& of, const std::string& key) {
    return of.contains(key) ? of[key].dump() : std::string("absent");
  };
  const auto compare = [&](const std::string& key) {
    if (key != str("/", kDigestKey) && value(now, key) != value(then, key))
      found.push_back(str(key, " is ", value(now, key), ", was ", value(then, key)));
  };
  for (const auto& [key, ignored] : now.items()) compare(key);
  for (const auto& [key, ignored] : then.items())
    if (!now.contains(key)) compare(key);
  constexpr size_t kMost = 8;
  if (found.size() > kMost) {
    found.resize(kMost);
    found.emplace_back("...");
  }
  return join(found, "; ");
}

// The command that puts the config back.
std::string put_back(const fs::path& kept, const RunFolder& run) {
  return str("cp ", shell_quoted(kept.string()), " ", shell_quoted(run.config().string()));
}

[[noreturn]] void refuse_broken(const RunFolder& run, const std::string& text) {
  std::string message =
      str(run.config().string(),
          " is not as lmtrain wrote it: its digest does not fit, so it was damaged or edited");
  const std::optional<fs::path> kept = last_kept(run);
  if (kept) {
    const std::string found = differences(text, *kept);
    if (!found.empty()) message += str(". Against ", kept->string(), ": ", found);
  }
  message += str(". A setting is changed by: lmtrain resume ", shell_quoted(run.path().string()),
                 " --set KEY=VALUE");
  if (kept) message += str("; the file is put back by: ", put_back(*kept, run));
  throw Error(ErrorKind::kCheckpoint, message);
}

}  // namespace

RunConfig read_run_config(const RunFolder& run) {
  if (!is_there(run.config())) {
    throw Error(ErrorKind::kUsage, str(run.config().string(), ": there is no such file, so ",
                                       run.path().string(), " is no whole run folder"));
  }
  const std::string text = read_file(run.config());
  const Seal seal = seal_of(text);
  if (seal == Seal::kBroken) refuse_broken(run, text);
  try {
    return {parse_config(text, run.config().string(), {}, InitFrom::kSkip), seal == Seal::kGood};
  } catch (const Error& error) {
    const std::optional<fs::path> kept = last_kept(run);
    throw Error(ErrorKind::kCheckpoint,
                str(error.what(), "\nthis is the config of a run, and damaged",
                    kept ? str("; it is put back by: ", put_back(*kept, run)) : ""));
  }
}

Config read_run_config(const RunFolder& run, const std::vector<std::string>& overrides) {
  return parse_config(read_file(run.config()), run.config().string(), overrides, InitFrom::kSkip);
}

void write_run_config(const RunFolder& run, const Config& config, int64_t step) {
  const std::string text = sealed_text(config_to_json(config));
  // The run was begun by an lmtrain that kept none.
  if (run.holds_run() && kept_configs(run).empty()) keep(run, read_file(run.config()), 0);
  keep(run, text, step);
  write_file_atomic(run.config(), text);
}

}  // namespace lmtrain
