#include "runlog/metrics_check.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

enum class LineKind { kNone, kUpdate, kEvaluation, kOther };

struct Line {
  LineKind kind = LineKind::kNone;
  int64_t step = 0;
  size_t begin = 0, end = 0;  // in the file, with its newline
};

bool is_number_or_null(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && (found->is_number() || found->is_null());
}

bool is_count(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_integer() && found->get<int64_t>() >= 0;
}

// Returns whether all figures of an evaluation, also of its sets and lengths, are numbers or null.
bool has_whole_figures(const nlohmann::json& line) {
  for (const auto& [key, value] : line.items()) {
    if (key.starts_with("eval_") && !value.is_number() && !value.is_null()) return false;
  }
  return true;
}

// A line of metrics.cpp, or one that a later version adds, which has a step at least.
Line read_line(std::string_view text) {
  nlohmann::json line;
  try {
    line = parse_strict_json(text, {});
  } catch (const Error&) {
    return {};
  }
  if (!line.is_object() || !is_count(line, "step")) return {};
  const auto step = line["step"].get<int64_t>();
  if (line.contains("eval_loss")) {
    const bool whole = is_count(line, "tokens") && has_whole_figures(line);
    return {whole ? LineKind::kEvaluation : LineKind::kNone, step};
  }
  if (!line.contains("grad_norm") && !line.contains("loss")) return {LineKind::kOther, step};
  constexpr std::array<const char*, 6> kNumbers = {"loss", "grad_norm",         "lr",
                                                   "mfu",  "tokens_per_second", "elapsed"};
  const bool whole = step > 0 && is_count(line, "tokens") && is_count(line, "seq_len") &&
                     std::all_of(kNumbers.begin(), kNumbers.end(),
                                 [&](const char* key) { return is_number_or_null(line, key); });
  return {whole ? LineKind::kUpdate : LineKind::kNone, step};
}

// A line counts only with its newline.
std::vector<Line> read_lines(std::string_view bytes) {
  std::vector<Line> lines;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t newline = bytes.find('\n', begin);
    const bool ended = newline != std::string_view::npos;
    Line line = ended ? read_line(bytes.substr(begin, newline - begin)) : Line{};
    line.begin = begin;
    line.end = begin = ended ? newline + 1 : bytes.size();
    lines.push_back(line);
  }
  return lines;
}

// Returns the indices of the longest ascending sequence of updates up to `last`, so that a damaged
// step number costs only its own line. (Longest increasing subsequence, by the smallest end of each
// length.)
std::vector<size_t> updates_in_order(const std::vector<Line>& lines, int64_t last) {
  constexpr size_t kNowhere = SIZE_MAX;
  std::vector<size_t> ends;
  std::vector<size_t> before(lines.size(), kNowhere);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].kind != LineKind::kUpdate || lines[i].step > last) continue;
    const auto slot =
        std::lower_bound(ends.begin(), ends.end(), lines[i].step,
                         [&](size_t end, int64_t step) { return lines[end].step < step; });
    if (slot != ends.begin()) before[i] = *(slot - 1);
    slot == ends.end() ? ends.push_back(i) : void(*slot = i);
  }
  std::vector<size_t> indices;
  for (size_t i = ends.empty() ? kNowhere : ends.back(); i != kNowhere; i = before[i])
    indices.push_back(i);
  std::reverse(indices.begin(), indices.end());
  return indices;
}

// NAME.damaged-1 and so on, the first that is free.
fs::path free_name(const fs::path& file) {
  for (int number = 1;; ++number) {
    fs::path name = file;
    name += str(".damaged-", number);
    if (!is_there(name)) return name;
  }
}

// Returns whether `bytes` begin with updates that the state has. Some lines may be damaged, so the
// majority of several lines decides.
bool begins_before(std::string_view bytes, const TrainingState& state) {
  constexpr int kAsked = 16;
  int before = 0, after = 0;
  for (size_t begin = 0; before + after < kAsked;) {
    const size_t newline = bytes.find('\n', begin);
    if (newline == std::string_view::npos) break;
    const Line line = read_line(bytes.substr(begin, newline - begin));
    begin = newline + 1;
    if (line.kind == LineKind::kUpdate) ++(line.step <= state.step ? before : after);
  }
  return before > after;
}

// Returns the first byte to examine, at the beginning of a line: the last `examined` bytes, doubled
// until they begin with updates that the state has.
size_t first_examined(std::string_view bytes, const TrainingState& state, uint64_t examined) {
  for (uint64_t size = examined; size < bytes.size(); size *= 2) {
    const size_t newline = bytes.find('\n', bytes.size() - size - 1);
    if (newline == std::string_view::npos) continue;
    if (begins_before(bytes.substr(newline + 1), state)) return newline + 1;
  }
  return 0;
}

struct Mended {
  std::string kept;
  MetricsDamage damage;
};

// Mends `bytes`. If `is_whole`, they are the whole file, whose updates must begin with step 1.
Mended mend(std::string_view bytes, const TrainingState& state, bool is_whole) {
  const std::vector<Line> lines = read_lines(bytes);
  const std::vector<size_t> updates = updates_in_order(lines, state.step);
  Mended mended;
  int64_t known = is_whole || updates.empty() ? 0 : lines[updates.front()].step - 1;
  const auto note_lost_before = [&](int64_t step) {
    if (step > known + 1) mended.damage.lost.emplace_back(known + 1, step - 1);
    known = step;
  };
  for (const size_t i : updates) note_lost_before(lines[i].step);
  const bool whole_end = known == state.step;
  note_lost_before(state.step + 1);
  // Behind the last update that counts lies what is trained again, torn or not.
  const size_t checked = !whole_end ? lines.size() : updates.empty() ? 0 : updates.back() + 1;

  auto next = updates.begin();
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    bool keeps = false;
    if (next != updates.end() && *next == i) {
      keeps = true;
      ++next;
    } else if (line.kind == LineKind::kEvaluation) {
      // One at the state's step that the state does not know of is made again, or was no part of
      // the run.
      keeps = line.step < state.step || (line.step == state.step && state.eval_step == state.step);
    } else if (line.kind == LineKind::kOther) {
      keeps = line.step <= state.step;
    }
    if (keeps) mended.kept += bytes.substr(line.begin, line.end - line.begin);
    const bool trained_again = line.kind != LineKind::kNone && line.step > state.step;
    if (!keeps && i < checked && (!trained_again || next != updates.end()))
      ++mended.damage.dropped_lines;
  }
  return mended;
}

std::string range_text(const std::pair<int64_t, int64_t>& range) {
  return range.first == range.second ? str(range.first) : str(range.first, " to ", range.second);
}

}  // namespace

MetricsDamage mend_metrics(const fs::path& file, const TrainingState& state, uint64_t examined) {
  if (!is_there(file)) {
    MetricsDamage damage = mend("", state, /*is_whole=*/true).damage;
    damage.missing = true;
    return damage;
  }
  Mended mended;
  uint64_t size = 0;
  size_t begin = 0;
  bool is_prefix = false;
  fs::path rewritten = file;
  rewritten += ".tmp";
  {
    const MappedFile mapped(file);
    size = mapped.bytes().size();
    begin = first_examined(mapped.bytes(), state, examined);
    const std::string_view end = mapped.bytes().substr(begin);
    mended = mend(end, state, begin == 0);
    is_prefix = end.starts_with(mended.kept);
    if (mended.damage.dropped_lines > 0) {
      mended.damage.copy = free_name(file);
      write_file_atomic(mended.damage.copy, mapped.bytes());
    }
    if (!is_prefix) {
      FileWriter writer(rewritten);
      writer.write(mapped.bytes().substr(0, begin));
      writer.write(mended.kept);
      writer.finish();
    }
  }
  if (!is_prefix) {
    publish_rename(rewritten, file);
  } else if (begin + mended.kept.size() < size) {
    truncate_file(file, begin + mended.kept.size());
  }
  return mended.damage;
}

std::string describe(const MetricsDamage& damage, const fs::path& file) {
  constexpr size_t kMostRanges = 5;
  std::vector<std::string> ranges;
  for (const auto& range : damage.lost) {
    if (ranges.size() == kMostRanges) {
      ranges.emplace_back("...");
      break;
    }
    ranges.push_back(range_text(range));
  }
  std::string text = file.string();
  if (damage.missing) {
    text += " is missing";
  } else if (damage.dropped_lines > 0) {
    text += str(" is damaged: ", counted(damage.dropped_lines, "line"), " taken out");
  } else {
    text += " is not whole";
  }
  if (!ranges.empty()) text += str("; the lines of updates ", join(ranges, ", "), " are lost");
  text += "; the run itself goes on unchanged";
  if (!damage.copy.empty()) text += str("; the file as it was: ", damage.copy.string());
  return text;
}

void report_damage(const MetricsDamage& damage, const RunFolder& run, const TrainingState& state,
                   LogFiles& log) {
  constexpr const char* kEvent = "metrics_damaged";
  if (!damage.any()) return;
  nlohmann::ordered_json lost = nlohmann::ordered_json::array();
  for (const auto& [first, last] : damage.lost) lost.push_back({first, last});
  // Lines that are lost stay lost: once is enough.
  nlohmann::json told;
  for_each_json_line(run.events(), [&](const nlohmann::json& line, uint64_t) {
    const auto event = line.find("event");
    if (event != line.end() && *event == kEvent && line.contains("lost")) told = line["lost"];
  });
  if (damage.dropped_lines == 0 && told == nlohmann::json(lost)) return;
  const std::string text = describe(damage, run.metrics());
  log_warning(text);
  log.event(kEvent, state, text,
            {{"lost", std::move(lost)},
             {"dropped_lines", damage.dropped_lines},
             {"copy", damage.copy.empty() ? nlohmann::ordered_json(nullptr)
                                          : nlohmann::ordered_json(damage.copy.string())}});
}

fs::path metrics_aside(const RunFolder& run) {
  fs::path aside = run.metrics();
  aside += ".before-restart";
  return aside;
}

std::string put_metrics_aside(const RunFolder& run, int64_t first_step) {
  if (!is_there(run.metrics())) return "";
  int64_t reached = 0;
  for (const Line& line : read_lines(MappedFile(run.metrics()).bytes())) {
    if (line.kind == LineKind::kUpdate) reached = std::max(reached, line.step);
  }
  if (reached <= first_step) return "";
  int64_t saved = 0;
  for_each_json_line(run.events(), [&](const nlohmann::json& line, uint64_t) {
    const auto event = line.find("event");
    if (event != line.end() && *event == "save" && is_count(line, "step"))
      saved = line["step"].get<int64_t>();
  });
  const fs::path aside = metrics_aside(run);
  const bool is_longest = examine(aside).size <= examine(run.metrics()).size;
  if (is_longest) publish_rename(run.metrics(), aside);
  const std::string known = saved == 0 ? std::string(" (none was saved)")
                                       : str(", though one of step ", saved,
                                             " was saved; if it can be brought back, stop "
                                             "this run and resume with it");
  return str("the run had reached step ", reached, " and begins again at step ", first_step,
             ", as there is no checkpoint in ", run.checkpoints().string(), known,
             is_longest ? "; its metrics until then: "
                        : "; its metrics are not kept, as a longer attempt lies in ",
             aside.string());
}

}  // namespace lmtrain
