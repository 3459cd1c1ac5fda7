#include "checkpoint/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/json_fields.h"
#include "formats/strict_json.h"

namespace lmtrain {

static void list_fields(JsonFields<nlohmann::json>& json, TrialResult& result) {
  json.field("attempt", result.attempt);
  json.field("seed", result.seed);
  json.field("diverged", result.diverged);
  json.field("continued", result.continued);
  json.field("reason", result.reason);
  json.field("step", result.step);
  json.field("tokens", result.tokens);
  json.field("first_eval_loss", result.first_loss);
  json.field("eval_loss", result.loss);
  json.field("fingerprint", result.fingerprint);
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kTrialFile = "trial.json";

std::string trial_name(int64_t seed) { return str("seed_", seed); }

TrialResult read_trial(const fs::path& file) {
  constexpr int64_t kMostAttempts = 1'000'000;
  const JsonSource source{.kind = ErrorKind::kCheckpoint,
                          .origin = file.string(),
                          .advice = "remove its folder, and the trial is made again"};
  const auto no_result = [&](const std::string& problem) {
    return Error(source.kind,
                 str(source.origin, ": not the result of a trial: ", problem, "; ", source.advice));
  };
  const nlohmann::json fields = parse_checked_json(read_file(file), source);
  try {
    TrialResult result;
    JsonFields<nlohmann::json>::read(fields, result);
    const bool counts = result.attempt >= 0 && result.attempt <= kMostAttempts &&
                        result.seed >= 0 && result.step >= 0 && result.tokens >= 0;
    if (!counts) throw no_result("a number is out of range");
    if (file.parent_path().filename() != trial_name(result.seed))
      throw no_result(str("it is of seed ", result.seed));
    return result;
  } catch (const nlohmann::json::exception& error) {
    throw no_result(error.what());
  }
}

std::string printed_loss(const std::optional<double>& loss) {
  return loss ? printed("%.4f", *loss) : "-";
}

// Returns a row with the cells left-aligned in columns.
std::string table_row(const std::array<std::string, 4>& cells) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "  %-20s %-10s %-12s %-13s", cells[0].c_str(),
                cells[1].c_str(), cells[2].c_str(), cells[3].c_str());
  return text.data();
}

}  // namespace

bool TrialResult::converged() const {
  if (diverged) return false;
  if (!first_loss && !loss) return true;
  return loss && (!first_loss || *loss < *first_loss);
}

Config config_of_seed(Config config, int64_t seed) {
  if (config.restart.vary == RestartVary::kInit) config.data.seed = config.data_seed();
  config.seed = seed;
  return config;
}

RunFolder trial_folder(const RunFolder& run, int64_t seed) {
  return RunFolder(run.trials() / trial_name(seed), run.identity());
}

std::vector<TrialResult> read_trials(const RunFolder& run) {
  std::vector<TrialResult> results;
  for (const std::string& name : list_folder_if_there(run.trials())) {
    const fs::path file = run.trials() / name / kTrialFile;
    if (is_there(file)) results.push_back(read_trial(file));
  }
  std::sort(results.begin(), results.end(), [](const TrialResult& a, const TrialResult& b) {
    return std::pair(a.attempt, a.seed) < std::pair(b.attempt, b.seed);
  });
  return results;
}

void write_trial(const RunFolder& run, const TrialResult& result) {
  TrialResult written = result;
  // A reason may name a file, and not every file has a name in UTF-8.
  written.reason = replacing_malformed(result.reason);
  nlohmann::json fields = nlohmann::json::object();
  JsonFields<nlohmann::json>::write(fields, written);
  const fs::path folder = trial_folder(run, result.seed).path();
  lmtrain::create_directories(folder);
  write_file_atomic(folder / kTrialFile, checked_json_text(std::move(fields)));
}

std::optional<TrialResult> best_trial(const std::vector<TrialResult>& trials) {
  std::optional<TrialResult> best;
  for (const TrialResult& trial : trials) {
    if (trial.diverged || (trial.first_loss && !trial.loss)) continue;
    if (!best || trial.loss.value_or(INFINITY) < best->loss.value_or(INFINITY)) best = trial;
  }
  return best;
}

std::string trial_table(const std::vector<TrialResult>& trials, int64_t best_seed) {
  std::string text = table_row({"trial", "steps", "tokens", "held-out loss"});
  std::vector<double> losses;
  for (const TrialResult& trial : trials) {
    text += str("\n", table_row({str("seed ", trial.seed), std::to_string(trial.step),
                                 std::to_string(trial.tokens), printed_loss(trial.loss)}));
    if (trial.diverged) text += str(" diverged: ", trial.reason);
    if (!trial.diverged && trial.seed == best_seed) text += " goes on";
    if (!trial.diverged && trial.loss) losses.push_back(*trial.loss);
  }
  if (losses.size() < 2) return text;
  const auto count = static_cast<double>(losses.size());
  double mean = 0;
  for (const double loss : losses) mean += loss / count;
  double squares = 0;
  for (const double loss : losses) squares += (loss - mean) * (loss - mean);
  const auto [lowest, highest] = std::minmax_element(losses.begin(), losses.end());
  return text + str("\n  mean ", printed_loss(mean), ", standard deviation ",
                    printed_loss(std::sqrt(squares / (count - 1))), ", from ",
                    printed_loss(*lowest), " to ", printed_loss(*highest));
}

}  // namespace lmtrain
