#include "report/run_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/utf8.h"
#include "formats/json_lines.h"

namespace lmtrain {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestText = 300;  // bytes

std::string text_at(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string shortened(const std::string& text) {
  if (text.size() <= kLongestText) return text;
  return text.substr(0, valid_utf8_prefix(text.substr(0, kLongestText))) + "...";
}

// "name value" for each field that is a number.
void add_numbers(std::vector<std::string>& parts, const Json& line,
                 std::initializer_list<std::pair<const char*, const char*>> fields) {
  for (const auto& [key, name] : fields)
    if (const auto value = number_at(line, key)) parts.push_back(str(name, " ", *value));
}

// "optimizer.lr from 0.003 to 0.001" for each setting that a resume has changed.
void add_changes(std::vector<std::string>& parts, const Json& line) {
  const auto changed = line.find("changed");
  if (changed == line.end() || !changed->is_array()) return;
  const auto value = [](const Json& change, const char* key) {
    const auto found = change.find(key);
    return found == change.end() ? "?"
                                 : found->dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  for (const Json& change : *changed) {
    if (!change.is_object()) continue;
    parts.push_back(
        str(text_at(change, "key"), " from ", value(change, "was"), " to ", value(change, "is")));
  }
}

std::string describe(const std::string& kind, const Json& line) {
  std::vector<std::string> parts;
  if (const std::string reason = text_at(line, "reason"); !reason.empty()) parts.push_back(reason);
  add_numbers(parts, line,
              {{"from_step", "from step"},
               {"skipped_batch", "batch"},
               {"seq_len", "length"},
               {"loss", "loss"},
               {"grad_norm", "gradient norm"},
               {"loss_scale", "loss scale"},
               {"rows_before", "rows before"},
               {"rows", "rows now"},
               {"seed", "seed"},
               {"trial_step", "trial's step"},
               {"eval_loss", "held-out loss"}});
  if (const std::string tensor = text_at(line, "tensor"); !tensor.empty())
    parts.push_back("tensor " + tensor);
  add_changes(parts, line);
  if (kind == "rollback") {
    if (const auto step = number_at(line, "step")) parts.push_back(str("back to step ", *step));
  }
  return shortened(join(parts, ", "));
}

// A rollback stands where the run was when it went back.
double place_of(const std::string& kind, const Json& line) {
  const std::optional<double> from =
      kind == "rollback" ? number_at(line, "from_step") : std::nullopt;
  return from ? *from : number_at(line, "step").value_or(0);
}

bool is_routine(const std::string& kind, const Json& line) {
  return kind == "save" || kind == "sample" ||
         (kind == "end" && text_at(line, "reason") == "done") ||
         (kind == "start" && text_at(line, "reason").empty() && !line.contains("changed"));
}

// Leaves out the middle of each kind that has more than kMostEventsOfAKind.
void thin_out(RunEvents& events) {
  std::map<std::string, size_t> total, seen;
  for (const RunEvent& event : events.events) ++total[event.kind];
  std::erase_if(events.events, [&](const RunEvent& event) {
    const size_t index = seen[event.kind]++;
    return index >= kMostEventsOfAKind / 2 && index + kMostEventsOfAKind / 2 < total[event.kind];
  });
}

// The samples of one file, each step and prompt once.
class SampleList {
 public:
  void add(SampleEvent sample) {
    const auto [at, is_new] = index_.try_emplace({sample.step, sample.prompt}, samples_.size());
    if (is_new) {
      samples_.push_back(std::move(sample));
    } else {
      samples_[at->second] = std::move(sample);
    }
  }
  std::vector<SampleEvent> take() {
    std::stable_sort(samples_.begin(), samples_.end(),
                     [](const SampleEvent& a, const SampleEvent& b) { return a.step < b.step; });
    if (samples_.size() > kMostEventsOfAKind) {
      const auto half = static_cast<ptrdiff_t>(kMostEventsOfAKind / 2);
      samples_.erase(samples_.begin() + half, samples_.end() - half);
    }
    return std::move(samples_);
  }

 private:
  std::vector<SampleEvent> samples_;
  std::map<std::pair<double, std::string>, size_t> index_;
};

}  // namespace

RunEvents read_run_events(const std::filesystem::path& file) {
  RunEvents events;
  SampleList samples;
  for_each_json_line(file, [&](const Json& line, uint64_t) {
    const std::string kind = text_at(line, "event");
    if (kind.empty()) return;
    ++events.counts[kind];
    if (const std::string device = text_at(line, "device"); !device.empty()) events.device = device;
    if (const std::string precision = text_at(line, "precision"); !precision.empty())
      events.precision = precision;
    if (const auto memory = number_at(line, "peak_memory"))
      events.peak_memory = std::max(*memory, events.peak_memory.value_or(0));
    if (kind == "sample")
      samples.add(
          {number_at(line, "step").value_or(0), text_at(line, "prompt"), text_at(line, "text")});
    if (is_routine(kind, line)) return;
    events.events.push_back(
        {text_at(line, "time"), kind, place_of(kind, line), describe(kind, line)});
  });
  thin_out(events);
  events.samples = samples.take();
  return events;
}

}  // namespace lmtrain
