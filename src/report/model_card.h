// Makes the text of a model card: README.md beside a model's weights, as hubs of models show it,
// with YAML front matter before Markdown. Equal facts give equal bytes: a card names no time and no
// machine.
//
// Escapes all text from outside (names, paths, settings), and shows only the last parts of a path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "formats/data_totals.h"
#include "report/run_record.h"

namespace lmtrain {

// Holds what is known of a model.
struct CardFacts {
  std::string name;
  // From the model's own config.json.
  ModelConfig model;
  int64_t vocab_size = 0, max_length = 0, num_parameters = 0;
  // If the model is a checkpoint; nothing: not known.
  std::optional<int64_t> step, tokens;
  std::optional<double> eval_loss;  // held-out, at this step, in nats a target
  // These are null if the model belongs to no run, or the file is damaged.
  const Config* config = nullptr;  // resolved, with the seed of the checkpoint
  const RunRecord* run = nullptr;  // curves and evaluations
  const DataTotals* totals = nullptr;
};

// Every card has this line in its front matter. lmtrain leaves a README.md without it alone.
inline constexpr std::string_view kCardMark =
    "# Written by lmtrain. Without this line lmtrain leaves the file as it is.\n";
// The names of the card's two files.
inline constexpr const char* kCardFile = "README.md";
inline constexpr const char* kCurveFile = "curve.svg";

// Returns the text of README.md. It refers to curve.svg if card_curve() has one.
std::string model_card(const CardFacts& facts);
// Returns the text of curve.svg: training loss and held-out loss of the run against tokens. Empty
// if there is no run, or nothing to draw.
std::string card_curve(const CardFacts& facts);

// Returns the text as a scalar of YAML, in double quotes. Invalid UTF-8 becomes U+FFFD.
std::string yaml_text(std::string_view text);
// Returns the text for a paragraph or a cell of Markdown, on one line, with markup, links and HTML
// escaped. Invalid UTF-8, and control characters, become U+FFFD.
std::string markdown_text(std::string_view text);
// Returns the last part of a path that has no wildcard, and the parts after it: "text/**/*.txt" for
// "/data/text/**/*.txt". If the part before is "checkpoints" or "snapshots", it and the part before
// it stand in front: "run/checkpoints/step_00000010". Returns an address ("://") as it is.
std::string last_parts(const std::string& path);

}  // namespace lmtrain
