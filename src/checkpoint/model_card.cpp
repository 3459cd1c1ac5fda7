#include "checkpoint/model_card.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/stop.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/run_config.h"
#include "checkpoint/trial.h"
#include "formats/data_totals.h"
#include "formats/manifest.h"
#include "report/model_card.h"
#include "report/run_record.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Returns read(); nothing where that finds damage, which another reader will name.
template <class Read>
auto what_is_known(const Read& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& error) {
    const bool is_damage = error.kind() == ErrorKind::kCheckpoint ||
                           error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kConfig ||
                           error.kind() == ErrorKind::kUsage;
    if (!is_damage) throw;
    return std::nullopt;
  }
}

// Holds the facts in the folder of a run.
struct KnownOfRun {
  std::optional<Config> config;
  std::optional<RunRecord> record;
  std::optional<DataTotals> totals;
};

KnownOfRun facts_of_run(const RunFolder& run, const Poll& poll) {
  constexpr size_t kMostBuckets = 720;
  KnownOfRun facts;
  facts.config = what_is_known([&] { return read_run_config(run).config; });
  facts.record = what_is_known([&] {
    MetricsSeries series = read_metrics_series(run.metrics(), poll);
    RunRecord record;
    record.curves = curves_of(series.updates, kMostBuckets);
    record.evaluations = std::move(series.evaluations);
    if (series.updates.size() > 0) record.step = series.updates.step.back();
    return record;
  });
  facts.totals = read_data_totals(run.data_totals());
  return facts;
}

struct Card {
  std::string text, curve;
};

// Returns the card of a model. Throws the errors of located_model_config and located_max_length.
Card card_of(const ModelLocation& location, const KnownOfRun& run) {
  CardFacts facts;
  facts.model = located_model_config(location);
  facts.vocab_size = facts.model.vocab_size.value_or(kLlamaDefaultVocabSize);
  facts.max_length = located_max_length(location);
  facts.num_parameters = located_layout(location).num_parameters();
  facts.step = location.step;
  std::optional<TrainingState> state;
  if (is_file(location.folder / kStateFile))
    state = what_is_known([&] { return read_state(location.folder); });
  std::optional<Config> config = run.config;
  if (state) {
    facts.step = state->step;
    facts.tokens = state->tokens;
    if (state->eval_step == state->step) facts.eval_loss = state->eval_loss;
    if (config) config = config_of_seed(*config, state->seed);
  }
  facts.name = config ? config->name : fs::canonical(location.folder).filename().string();
  if (config) facts.config = &*config;
  if (run.record) facts.run = &*run.record;
  if (run.totals) facts.totals = &*run.totals;
  return {model_card(facts), card_curve(facts)};
}

bool is_of_others(const fs::path& card) {
  if (!is_there(card)) return false;
  const auto text = what_is_known([&] { return read_file(card); });
  return !text || text->find(kCardMark) == std::string::npos;
}

void write_if_other(const fs::path& file, const std::string& bytes) {
  const auto has_them = [&] { return read_file(file) == bytes; };
  if (is_file(file) && what_is_known(has_them).value_or(false)) return;
  write_file_atomic(file, bytes);
}

}  // namespace

void write_model_cards(const RunFolder& run) {
  // A signal that has come since the last step changes nothing of a run that is done.
  const KnownOfRun facts = facts_of_run(run, [] {});
  for (const int64_t step : run.checkpoint_steps()) {
    const ModelLocation location{run.checkpoint(step), run.path(), step};
    const fs::path file = location.folder / kCardFile;
    if (!is_file(location.folder / "config.json") || is_of_others(file)) continue;
    const std::optional<Card> card = what_is_known([&] { return card_of(location, facts); });
    if (!card) continue;
    if (!card->curve.empty()) write_if_other(location.folder / kCurveFile, card->curve);
    write_if_other(file, card->text);
  }
}

void write_model_card(const ModelLocation& location, const fs::path& folder) {
  if (!location.run && is_file(location.folder / kCardFile)) {
    for (const char* name : {kCardFile, kCurveFile})
      if (is_file(location.folder / name)) copy_file_synced(location.folder / name, folder / name);
    return;
  }
  KnownOfRun facts;
  if (location.run) facts = facts_of_run(RunFolder(*location.run), throw_if_stopped);
  const Card card = card_of(location, facts);
  if (!card.curve.empty()) write_file_synced(folder / kCurveFile, card.curve);
  write_file_synced(folder / kCardFile, card.text);
}

CardConfig located_card(const ModelLocation& location) {
  if (!location.run) return {};
  return what_is_known([&] { return read_run_config(RunFolder(*location.run)).config.card; })
      .value_or(CardConfig());
}

}  // namespace lmtrain
