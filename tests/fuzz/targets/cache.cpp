// The entries of the cache: the index, then info.json of shards, info.json of a tokenizer, and the
// table of files, which are parted by lines "%%". A shard and a tokenizer are there.
#include "prepare/cache.h"

#include "formats/token_shard.h"
#include "fuzz/sealed.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {
namespace {

void make_shards(const std::filesystem::path& folder) {
  for (const char* name : {"train.bin", "eval.bin"}) {
    TokenShardWriter writer(folder / name, 300);
    writer.add_document(std::vector<int32_t>{1, 2, 3}, 5);
    writer.add_document(std::vector<int32_t>{4, 299}, 4);
    writer.finish();
  }
}

}  // namespace

LMTRAIN_FUZZ_TARGET(cache) {
  static const Cache cache(scratch_folder() / "cache");
  static const bool has_entries = [] {
    std::filesystem::create_directories(cache.shards_folder("f"));
    std::filesystem::create_directories(scratch_folder() / "cache/tokenizers/k");
    make_shards(cache.shards_folder("f"));
    write_scratch("cache/tokenizers/k/tokenizer.model", "no model");
    return true;
  }();
  require(has_entries, "the entries are there");
  const std::vector<std::string> parts = parts_of(input, 4);
  write_scratch("cache/index/k.json", sealed(parts[0]));
  write_scratch("cache/shards/f/info.json", sealed(parts[1]));
  write_scratch("cache/tokenizers/k/info.json", sealed(parts[2]));
  const std::filesystem::path table = write_scratch("cache/index/k.files", sealed(parts[3]));
  // What it finds agrees with the shards that are there.
  accepts([] {
    if (const auto shards = cache.find_shards("f"))
      require(shards->train_documents == 2 && shards->train_tokens == 5, "counts of other shards");
  });
  accepts([] { (void)cache.find_index("k"); });
  accepts([] { (void)cache.find_tokenizer(cache.tokenizer_path("k", "tokenizer.model")); });
  accepts([&] { (void)files_of_documents(table, {0, 1, 1'000'000}); });
}

}  // namespace lmtrain::fuzzing
