#include "checkpoint/run_config.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/examine.h"
#include "base/text.h"
#include "config/digest.h"
#include "config/parse.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Returns the files of config_history/, by number.
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

void keep(const RunFolder& run, const std::string& text, int64_t step) {
  const std::map<int64_t, fs::path> kept = kept_configs(run);
  if (!kept.empty() && read_file(kept.rbegin()->second) == text) return;
  const int64_t number = kept.empty() ? 1 : kept.rbegin()->first + 1;
  lmtrain::create_directories(run.config_history());
  write_file_atomic(run.config_history() / str(printed("%04.0f", static_cast<double>(number)), "_",
                                               step_name(step), ".json"),
                    text);
}

// A kept config that is whole.
struct Kept {
  fs::path file;
  nlohmann::json json;
};

// Returns the kept config for the text of config.json: with the same digest, else the last valid
// one. After a kill the last one may never have been in use.
std::optional<Kept> kept_of(const RunFolder& run, const std::string& text) {
  const nlohmann::json now = shallow_json(text);
  const nlohmann::json digest = now.is_object() ? now.value(kDigestKey, nlohmann::json()) : now;
  std::optional<Kept> last;
  for (const auto& [number, file] : kept_configs(run)) {
    const std::string former = read_file(file);
    if (seal_of(former) != Seal::kGood) continue;
    last = Kept{file, shallow_json(former)};
    if (last->json.at(kDigestKey) == digest) return last;
  }
  return last;
}

// Returns "/optimizer/lr is 0.1, was 0.001" for each value that differs from the kept config.
std::string differences(const std::string& text, const Kept& kept) {
  const nlohmann::json now = shallow_json(text).flatten();
  const nlohmann::json then = kept.json.flatten();
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
  if (found.empty()) return str("/", kDigestKey, " alone");
  constexpr size_t kMost = 200;  // more than there are settings; a list of files may be longer
  if (found.size() > kMost) {
    const size_t more = found.size() - kMost;
    found.resize(kMost);
    found.push_back(str("and ", more, " more"));
  }
  return join(found, "; ");
}

// The command that puts the config back.
std::string put_back(const fs::path& kept, const RunFolder& run) {
  return str("the file is put back by: cp ", shell_quoted(kept.string()), " ",
             shell_quoted(run.config().string()));
}

[[noreturn]] void refuse(const RunFolder& run, const std::string& text, const std::string& problem,
                         const std::optional<Kept>& kept) {
  std::string message = str(run.config().string(), " is not as lmtrain wrote it: ", problem);
  if (kept) message += str(". Against ", kept->file.string(), ": ", differences(text, *kept));
  const std::string folder = shell_quoted(run.path().string());
  message += str(". A setting is changed by: lmtrain resume ", folder,
                 " --set KEY=VALUE, or by: lmtrain train CONFIG.json --run-dir ", folder,
                 " --continue --set KEY=VALUE");
  if (kept) message += str("; ", put_back(kept->file, run));
  throw Error(ErrorKind::kCheckpoint, message);
}

// Throws Error(kCheckpoint) if the text of config.json is not what lmtrain wrote for this run.
void require_own_text(const RunFolder& run, const std::string& text,
                      const std::optional<Kept>& kept) {
  const Seal seal = seal_of(text);
  if (seal == Seal::kBroken)
    refuse(run, text, "its digest does not fit, so it was damaged or edited", kept);
  const nlohmann::json json = shallow_json(text);
  if (!json.is_object()) return;
  if (seal == Seal::kNone)
    refuse(run, text, "its digest is gone, so it was damaged or edited", kept);
  if (!kept) return;
  const std::string is = identity_in(json).id;
  const std::string was = identity_in(kept->json).id;
  if (!is.empty() && !was.empty() && is != was)
    refuse(run, text, str("it is the config of the run ", is, ", not of ", was), kept);
}

std::string read_own_text(const RunFolder& run, std::optional<Kept>& kept) {
  if (!is_there(run.config())) {
    throw Error(ErrorKind::kUsage, str(run.config().string(), ": there is no such file, so ",
                                       run.path().string(), " is no whole run folder"));
  }
  std::string text = read_file(run.config());
  kept = kept_of(run, text);
  require_own_text(run, text, kept);
  return text;
}

}  // namespace

RunConfig read_run_config(const RunFolder& run) {
  std::optional<Kept> kept;
  const std::string text = read_own_text(run, kept);
  try {
    return {parse_config(text, run.config().string(), {}, ConfigAuthor::kRun),
            identity_in(shallow_json(text))};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    if (seal_of(text) == Seal::kGood) {
      throw Error(ErrorKind::kCheckpoint,
                  str(error.what(),
                      "\nthis is the config of a run that another version of lmtrain wrote; finish "
                      "the run with that version"));
    }
    throw Error(ErrorKind::kCheckpoint,
                str(error.what(), "\nthis is the config of a run, and damaged",
                    kept ? "; " + put_back(kept->file, run) : ""));
  }
}

Config read_run_config(const RunFolder& run, const std::vector<std::string>& overrides) {
  std::optional<Kept> kept;
  return parse_config(read_own_text(run, kept), run.config().string(), overrides,
                      ConfigAuthor::kRun);
}

bool is_model_folder(const fs::path& folder) {
  const fs::path file = RunFolder(folder).config();
  if (!is_file(file)) return false;
  const nlohmann::json json = shallow_json(read_file(file));
  return json.is_object() && (json.contains("model_type") || json.contains("architectures"));
}

bool is_run_folder(const fs::path& folder) {
  return RunFolder(folder).holds_run() && !is_checkpoint_folder(folder) && !is_model_folder(folder);
}

std::string name_runs_in(const fs::path& folder, const std::string& command) {
  constexpr size_t kMostNames = 1000, kMostShown = 5;
  if (!is_folder(folder)) return "";
  std::vector<std::string> names = list_folder(folder);
  names.resize(std::min(names.size(), kMostNames));
  const std::string before = command.empty() ? "" : str("lmtrain ", command, " ");
  std::vector<std::string> shown;
  int64_t count = 0;
  for (const std::string& name : names) {
    if (!is_run_folder(folder / name)) continue;
    if (++count <= static_cast<int64_t>(kMostShown))
      shown.push_back(str(before, shell_quoted((folder / name).string())));
  }
  if (count == 0) return "";
  const int64_t more = count - static_cast<int64_t>(shown.size());
  return str("; ", counted(count, "run"), " in it: ", join(shown, ", "),
             more > 0 ? str(", and ", more, " more") : "");
}

void require_config_of_run(const RunFolder& run) {
  if (!is_there(run.events())) return;
  const std::optional<Kept> kept = kept_of(run, "");
  if (!kept) return;
  throw Error(
      ErrorKind::kCheckpoint,
      str(run.config().string(), is_there(run.config()) ? " is that of a model" : " is missing",
          ", though the folder holds a run; ", put_back(kept->file, run)));
}

void write_run_config(const RunFolder& run, const Config& config, int64_t step) {
  nlohmann::ordered_json json = config_to_json(config);
  if (!run.identity().id.empty()) json[kIdentityKey] = identity_json(run.identity());
  const std::string text = sealed_text(std::move(json));
  keep(run, text, step);
  write_file_atomic(run.config(), text);
}

}  // namespace lmtrain
