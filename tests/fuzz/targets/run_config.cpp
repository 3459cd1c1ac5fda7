// config.json of a run folder, with its digest and identity: as it is, and with the right digest.
#include "checkpoint/run_config.h"

#include <nlohmann/json.hpp>

#include "config/digest.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {
namespace {

std::string with_digest(std::string_view text) {
  const nlohmann::json json = shallow_json(text);
  return json.is_object() ? sealed_text(nlohmann::ordered_json::parse(json.dump()))
                          : std::string(text);
}

}  // namespace

LMTRAIN_FUZZ_TARGET(run_config) {
  const RunFolder run(scratch_folder());
  std::filesystem::create_directories(run.config_history());
  const std::vector<std::string> parts = parts_of(input, 2);
  write_scratch("config_history/0001_step_00000000.json", parts[1]);
  std::vector<std::string> texts = {parts[0]};
  try {
    texts.push_back(with_digest(parts[0]));
  } catch (const nlohmann::json::exception&) {  // strings that are no UTF-8 have no text
  }
  for (const std::string& text : texts) {
    write_scratch("config.json", text);
    RunConfig config;
    if (!accepts([&] { config = read_run_config(run); })) continue;
    require(seal_of(text) == Seal::kGood, "a broken seal is taken");
  }
}

}  // namespace lmtrain::fuzzing
