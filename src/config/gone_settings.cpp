#include "config/gone_settings.h"

#include <nlohmann/json.hpp>

namespace lmtrain {
namespace {

constexpr GoneSetting kGone[] = {
    {"products", "", "\"heuristic\"",
     "products went, since chosen algorithms gained 1.5 % of a step on an H100; leave it out: "
     "cuBLAS chooses, as with \"heuristic\""},
};

const GoneSetting* find(std::string_view key, std::string_view value) {
  for (const GoneSetting& gone : kGone) {
    if (gone.key == key && gone.value == value) return &gone;
  }
  return nullptr;
}

}  // namespace

const GoneSetting* gone_setting(std::string_view key) { return find(key, ""); }

const GoneSetting* gone_value(std::string_view key, std::string_view value) {
  return value.empty() ? nullptr : find(key, value);
}

bool is_old_default(const GoneSetting& gone, const JsonNode& node) {
  return nlohmann::ordered_json::parse(gone.old_default) == to_json(node);
}

}  // namespace lmtrain
