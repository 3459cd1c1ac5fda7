#include "checkpoint/share_state.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {

void share_state(Processes& processes, const OptimizerShards& shards, TrainingState& state,
                 Parameters& parameters) {
  if (processes.is_only()) return;
  const std::string text = processes.broadcast(processes.is_first() ? state_to_text(state) : "");
  if (!processes.is_first()) state = parse_state(text, "the state that rank 0 has sent");
  if (shards.divides_weights()) return;
  processes.broadcast(parameters.master());
  parameters.refresh_working();
}

void share_limits(Processes& processes, MicroBatchLimits& limits) {
  if (processes.is_only()) return;
  std::string mine = str(limits.micro_tokens);
  for (const auto& [length, rows] : limits.rows) mine += str(" ", length, " ", rows);
  for (const std::string& text : processes.all_gather_texts(mine)) {
    std::istringstream numbers(text);
    int64_t micro_tokens = 0, length = 0, rows = 0;
    numbers >> micro_tokens;
    limits.micro_tokens = std::max(limits.micro_tokens, micro_tokens);
    while (numbers >> length >> rows) {
      const auto [at, is_new] = limits.rows.emplace(length, rows);
      if (!is_new) at->second = std::min(at->second, rows);
    }
  }
}

void require_alike(Processes& processes, const std::string& fingerprint,
                   const std::string& instructions) {
  const std::vector<std::string> prints = processes.all_gather_texts(fingerprint);
  const std::vector<std::string> versions = processes.all_gather_texts(LMTRAIN_VERSION);
  const std::vector<std::string> processors = processes.all_gather_texts(instructions);
  for (size_t rank = 1; rank < prints.size(); ++rank) {
    const std::string name = processes.name_of(static_cast<int>(rank));
    if (versions[rank] != versions[0]) {
      throw Error(ErrorKind::kUsage, str(name, " is lmtrain ", versions[rank], ", and rank 0 is ",
                                         versions[0], "; start the same program everywhere"));
    }
    if (prints[rank] != prints[0]) {
      throw Error(ErrorKind::kData,
                  str(name, " has found other data than rank 0 (fingerprint ", prints[rank],
                      ", not ", prints[0],
                      "): data.train, data.eval and tokenizer.model must hold the same "
                      "files on every machine"));
    }
    if (processors[rank] != processors[0]) {
      throw Error(
          ErrorKind::kUsage,
          str(name, " computes with ", processors[rank], ", and rank 0 with ", processors[0],
              ", which round differently: the weights would drift apart; "
              "use machines of one kind"));
    }
  }
}

}  // namespace lmtrain
