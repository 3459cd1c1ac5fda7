#include "training/eval_data.h"

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/run_config.h"
#include "eval/eval_share.h"
#include "formats/manifest.h"
#include "prepare/prepare.h"
#include "runlog/data_files.h"

namespace lmtrain {
namespace {

constexpr const char* kOtherText = "; or give other documents with --data PATH";

}  // namespace

EvalData eval_data_of(const ModelLocation& location, int num_threads) {
  if (!location.run) {
    throw Error(ErrorKind::kUsage,
                str(location.folder.string(),
                    " has no held-out text of its own; give documents with --data PATH"));
  }
  const RunConfig own = read_run_config(RunFolder(*location.run));
  const RunFolder run(*location.run, own.identity);
  Config config = own.config;
  const PreparedData data = [&] {
    try {
      require_given_tokenizer(run, config);
      refuse_changed_text(run, config);
      return prepare_data(config, num_threads);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kData) throw;
      throw Error(error.kind(), str("the text of the run: ", error.what(), kOtherText));
    }
  }();
  if (!data.eval_shard) {
    throw Error(ErrorKind::kUsage, "the run has no held-out text; give documents with --data PATH");
  }
  try {
    require_same_data(run, location.folder, read_manifest(location.folder).fingerprint, config,
                      data.fingerprint);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    throw Error(error.kind(), str(error.what(), kOtherText));
  }
  resolve_eval_tokens(config, data);
  return {*data.eval_shard, eval_sets_of(config.data, data), *config.eval.tokens};
}

DataConfig text_reading_of(const ModelLocation& location) {
  if (!location.run) return {};
  DataConfig reading = read_run_config(RunFolder(*location.run)).config.data;
  if (reading.format == DataFormat::kTokens) reading.format = DataConfig().format;
  return reading;
}

}  // namespace lmtrain
