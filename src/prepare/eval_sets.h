// Divides the documents of the evaluation shard into sets, each with its own figures: the named
// sets of data.eval, or the entries of data.train from which text is held out. Chooses the
// documents of an evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/token_shard.h"
#include "prepare/prepare.h"

namespace lmtrain {

struct EvalSets {
  std::vector<std::string> names;    // empty: all documents are one set without a name
  std::vector<int32_t> of_document;  // index in `names` of each document of the shard
  // Whether eval.tokens is divided among the sets. It is not for entries of data.train: the first
  // documents of the shard are a random sample of all held-out text.
  bool share_budget = false;
};

// Returns whether the held-out text of this config has sets, which need PreparedData::eval_sources.
bool has_eval_sets(const DataConfig& data);
// Returns the sets of the held-out text of `prepared`, which prepare_data() made from `data`.
EvalSets eval_sets_of(const DataConfig& data, const PreparedData& prepared);
// Throws Error(kData) for a named set without a document.
void require_full_sets(const DataConfig& data, const PreparedData& prepared);

// Returns the number of targets of a document: all tokens but the first, which nothing predicts.
int64_t document_targets(const TokenShard& shard, int64_t document);

// Divides a `budget` of targets among sets of these `sizes` in targets, and returns the part of
// each set. A budget of 0, or of at least all targets, gives whole sets. Else the parts are in
// proportion to the sizes, but each is at least a quarter of an equal part, or the whole of a
// smaller set.
std::vector<int64_t> divide_budget(int64_t budget, const std::vector<int64_t>& sizes);

// Returns the documents of an evaluation in ascending order: the first documents of the shard until
// they have `budget` targets (0: all). With share_budget it takes the first documents of each set
// until they have the set's part. The last document may go beyond.
std::vector<int64_t> choose_documents(const TokenShard& shard, int64_t budget,
                                      const EvalSets& sets);

// Returns a name for each entry of data.train, all different, made of the paths alone;
// is_set_name() of config/settings.h holds for them. A name is the last part of the path that has
// no wildcard: "python" for corpus/python/**/*.py. Where entries would have the same name, each
// gets the parts after it too ("python.py"), then one more part before it, and so on; at last a
// number. Relative paths count as absolute ones, so that a run and its config.json give the same
// names. docs/data.md states the rule.
std::vector<std::string> source_names(const std::vector<DataSourceConfig>& sources);

}  // namespace lmtrain
