// The model card: README.md beside a model's weights as the hubs of models show it, with YAML front
// matter before Markdown. Equal facts give equal bytes: no time and no machine stands in a card.
//
// All text from outside (names, paths, settings) is escaped. Of a path the last parts are shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "formats/data_totals.h"
#include "report/run_record.h"

namespace lmtrain {

// What is known of a model.
struct CardFacts {
  std::string name;
  // The shape, of the model's own config.json.
  ModelConfig model;
  int64_t vocab_size = 0, max_length = 0, num_parameters = 0;
  // Of a checkpoint; none: not known.
  std::optional<int64_t> step, tokens;
  std::optional<double> eval_loss;  // held-out, at this step
  // These are null where the model belongs to no run, or its files cannot be read.
  const Config* config = nullptr;  // resolved, with the seed that the run was made with
  const RunRecord* run = nullptr;  // curves and evaluations
  const DataTotals* totals = nullptr;
};

// Every card has this line in its front matter. A README.md without it is someone else's.
inline constexpr std::string_view kCardMark =
    "# Written by lmtrain. Without this line lmtrain leaves the file as it is.\n";
// The names of the two files.
inline constexpr const char* kCardFile = "README.md";
inline constexpr const char* kCurveFile = "curve.svg";

// Returns the text of README.md. It refers to curve.svg if card_curve() has one.
std::string model_card(const CardFacts& facts);
// Returns the text of curve.svg: training loss and held-out loss of the run against tokens. Empty
// where there is no run, or nothing to draw.
std::string card_curve(const CardFacts& facts);

// Returns the text as a scalar of YAML, in double quotes. Bytes that are no UTF-8 become U+FFFD.
std::string yaml_text(std::string_view text);
// Returns the text for a paragraph or a cell of Markdown, on one line: what could be markup, a link
// or HTML is escaped. Bytes that are no UTF-8, and control characters, become U+FFFD.
std::string markdown_text(std::string_view text);
// Returns the last parts of a path that tell what it is: from the last part without a wildcard on.
// An address ("://") stays as it is.
std::string last_parts(const std::string& path);

}  // namespace lmtrain
