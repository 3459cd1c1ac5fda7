// Divides the documents of the evaluation shard into sets that have figures of their own: the named
// sets of data.eval or, where text is held out of data.train, its entries. Chooses the documents of
// an evaluation.
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
  // Whether each set has a part of eval.tokens of its own. The entries of data.train have not: the
  // first documents of the shard are a random sample of all held-out text.
  bool share_budget = false;
};

// Returns whether the held-out text of this config is divided, so that PreparedData::eval_sources
// must be known.
bool has_eval_sets(const DataConfig& data);
// Returns the sets of the held-out text of `prepared`, which was made from `data`.
EvalSets eval_sets_of(const DataConfig& data, const PreparedData& prepared);
// Throws Error(kData) for a named set without a document.
void require_full_sets(const DataConfig& data, const PreparedData& prepared);

// Returns the number of targets of a document. Its first token is predicted from nothing, and is no
// target.
int64_t document_targets(const TokenShard& shard, int64_t document);

// Returns how many targets of each set an evaluation takes at least, for sets of these `sizes` in
// targets: the whole set where `budget` is 0 or not less than all sets. Otherwise the budget is
// divided in proportion to the sizes, but each set gets at least a quarter of an equal part, or all
// of a set that is smaller.
std::vector<int64_t> divide_budget(int64_t budget, const std::vector<int64_t>& sizes);

// Returns the documents of an evaluation in ascending order: the first of the shard that hold
// `budget` targets together (0: all), or, with share_budget, the first of each set that hold its
// part.
std::vector<int64_t> choose_documents(const TokenShard& shard, int64_t budget,
                                      const EvalSets& sets);

// Names the entries of data.train, whose held-out parts have figures of their own. A name follows
// from the paths alone and has the characters of a set's name (config/settings.h). docs/data.md
// states the rule.

// Returns one name per entry, all different. A name is the last part of the path that has no
// wildcard: "python" for corpus/python/**/*.py. Where several entries would have the same name,
// each of these gets the parts behind it too ("python.py"), then one more part before it, and so
// on. Relative paths are taken as absolute ones, so that a run and its config.json give the same
// names.
std::vector<std::string> source_names(const std::vector<DataSourceConfig>& sources);

}  // namespace lmtrain
