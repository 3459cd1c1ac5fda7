#include "config/removed_settings.h"

#include <nlohmann/json.hpp>

namespace lmtrain {
namespace {

constexpr RemovedSetting kRemoved[] = {
    {"products", "", "\"heuristic\"",
     "products was removed, since chosen algorithms gained 1.5 % of a step on an H100; leave it "
     "out: cuBLAS chooses, as with \"heuristic\""},
    {"optimizer.type", "schedule_free", "",
     "optimizer.type \"schedule_free\" was removed, since it alone trained at other weights than "
     "are evaluated and saved; use adamw with lr_schedule.type wsd, which needs no length in "
     "advance either"},
    {"optimizer.type", "prodigy", "",
     "optimizer.type \"prodigy\" was removed, since its loss was far above adamw's; use adamw"},
    {"optimizer.betas_end", "", "[]",
     "optimizer.betas_end was removed, since no run was shown to gain by it; leave it out: betas "
     "stay"},
    {"optimizer.weight_decay_end_ratio", "", "1.0",
     "optimizer.weight_decay_end_ratio was removed, since no run was shown to gain by it; leave it "
     "out: decay follows the learning rate"},
    {"optimizer.end_shape", "", "\"linear\"",
     "optimizer.end_shape was removed with betas_end and weight_decay_end_ratio; leave it out"},
    {"optimizer.d0", "", "1e-06",
     "optimizer.d0 was removed with optimizer.type prodigy; leave it out"},
    {"optimizer.d_coef", "", "1.0",
     "optimizer.d_coef was removed with optimizer.type prodigy; leave it out"},
};

const RemovedSetting* find(std::string_view key, std::string_view value) {
  for (const RemovedSetting& removed : kRemoved) {
    if (removed.key == key && removed.value == value) return &removed;
  }
  return nullptr;
}

}  // namespace

const RemovedSetting* removed_setting(std::string_view key) { return find(key, ""); }

const RemovedSetting* removed_value(std::string_view key, std::string_view value) {
  return value.empty() ? nullptr : find(key, value);
}

bool is_old_default(const RemovedSetting& removed, const JsonNode& node) {
  return nlohmann::ordered_json::parse(removed.old_default) == to_json(node);
}

}  // namespace lmtrain
