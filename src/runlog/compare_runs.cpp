#include "runlog/compare_runs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/state.h"
#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "formats/strict_json.h"
#include "formats/tensor_files.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, TensorView>;

// Returns whether a field of a state or of metrics depends on the clock.
bool is_time(std::string_view field) {
  constexpr std::array<std::string_view, 6> kTimes = {
      "elapsed",      "tokens_per_second", "mfu",
      "slowest_rank", "slowest_seconds",   "communication_share"};
  return std::find(kTimes.begin(), kTimes.end(), field) != kTimes.end();
}

std::vector<nlohmann::json> lines_of(const RunFolder& run, int64_t first_step) {
  std::vector<nlohmann::json> lines;
  for_each_json_line(run.metrics(), [&](const nlohmann::json& line, uint64_t) {
    if (line.contains("step") && line["step"] >= first_step) lines.push_back(line);
  });
  return lines;
}

std::string shape_text(const TensorView& tensor) {
  return str(dtype_name(tensor.dtype), " ", nlohmann::json(tensor.shape).dump());
}

// "[3, 17]", row-major; empty for a scalar.
std::string index_text(const std::vector<int64_t>& shape, size_t element) {
  std::string text;
  for (size_t i = shape.size(); i > 0; --i) {
    const auto length = static_cast<size_t>(shape[i - 1]);
    text = str(element % length, text.empty() ? "" : ", ", text);
    element /= length;
  }
  return text.empty() ? "" : str("[", text, "]");
}

// "0.0123 (0x3c498a72)": two values may differ in bits alone that no decimal shows.
std::string value_text(const TensorView& tensor, size_t element) {
  const size_t size = dtype_size(tensor.dtype);
  const std::string_view bytes = tensor.bytes.substr(element * size, size);
  const std::string bits = "0x" + to_hex(std::string(bytes.rbegin(), bytes.rend()));
  if (tensor.dtype != DType::kF32) return bits;
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return str(printed("%.9g", static_cast<double>(value)), " (", bits, ")");
}

class Comparison {
 public:
  Comparison(const ComparedRun& a, const ComparedRun& b) : a_(a), b_(b) {}

  std::vector<std::string> found;

  void checkpoints() {
    if (a_.step != b_.step) {
      add("the last step", str(a_.step), str(b_.step));
      return;
    }
    const fs::path a = a_.folder.checkpoint(a_.step), b = b_.folder.checkpoint(b_.step);
    tensors("the weight ", TensorFiles(a).tensors(), TensorFiles(b).tensors());
    const SafetensorsFile optimizer_a(a / kOptimizerFile), optimizer_b(b / kOptimizerFile);
    tensors("the optimizer's ", optimizer_a.tensors(), optimizer_b.tensors());
    fields("the state's ", nlohmann::json::parse(state_to_text(read_state(a))),
           nlohmann::json::parse(state_to_text(read_state(b))));
  }

  void metrics(int64_t first_step) {
    const std::vector<nlohmann::json> a = lines_of(a_.folder, first_step);
    const std::vector<nlohmann::json> b = lines_of(b_.folder, first_step);
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      const std::string step = a[i].value("step", nlohmann::json()).dump();
      if (fields(str("in metrics.jsonl, step ", step, ", "), a[i], b[i])) return;
    }
    if (a.size() != b.size())
      add("the number of lines of metrics.jsonl", str(a.size()), str(b.size()));
  }

 private:
  void add(const std::string& what, const std::string& in_a, const std::string& in_b) {
    found.push_back(str(what, " is ", in_a, " ", a_.name, " and ", in_b, " ", b_.name));
  }

  void tensors(const char* part, const Tensors& a, const Tensors& b) {
    for (const auto& [name, tensor] : a) {
      const auto other = b.find(name);
      if (other == b.end()) return add(str(part, name), "there", "missing");
      if (differs(str(part, name), tensor, other->second)) return;
    }
    for (const auto& [name, tensor] : b) {
      if (!a.contains(name)) return add(str(part, name), "missing", "there");
    }
  }

  bool differs(const std::string& name, const TensorView& a, const TensorView& b) {
    if (a.dtype != b.dtype || a.shape != b.shape) {
      add(name, shape_text(a), shape_text(b));
      return true;
    }
    if (a.bytes == b.bytes) return false;
    const size_t size = dtype_size(a.dtype);
    size_t element = 0;
    while (a.bytes.substr(element * size, size) == b.bytes.substr(element * size, size)) ++element;
    add(str(name, index_text(a.shape, element)), value_text(a, element), value_text(b, element));
    return true;
  }

  // Returns whether two objects differ in a field that is no time.
  bool fields(const std::string& part, nlohmann::json a, nlohmann::json b) {
    for (nlohmann::json* object : {&a, &b}) {
      for (auto field = object->begin(); field != object->end();)
        field = is_time(field.key()) ? object->erase(field) : std::next(field);
    }
    if (a == b) return false;
    const nlohmann::json::json_pointer first(
        nlohmann::json::diff(a, b).at(0).at("path").get<std::string>());
    const auto value = [&](const nlohmann::json& json) {
      return json.contains(first) ? json.at(first).dump() : std::string("missing");
    };
    add(str(part, first.to_string().substr(1)), value(a), value(b));
    return true;
  }

  const ComparedRun& a_;
  const ComparedRun& b_;
};

}  // namespace

std::vector<std::string> run_differences(const ComparedRun& a, const ComparedRun& b,
                                         int64_t first_step) {
  Comparison comparison(a, b);
  comparison.checkpoints();
  comparison.metrics(first_step);
  return std::move(comparison.found);
}

}  // namespace lmtrain
