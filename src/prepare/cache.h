// The cache of data.cache_dir keeps finished preparations. Entries are published by rename, and
// their JSON files carry a checksum, which each read compares; the caller makes a missing or broken
// entry anew. All calls throw Error(kIo). docs/data.md describes the layout.
//
//   tokenizers/KEY/       KEY hashes the content and settings that decide the tokenizer
//   shards/KEY/           KEY is the fingerprint of the data, or for references to token files a
//                         hash of it and of the files; shards and checksums of their blocks
//   index/KEY.json        KEY hashes paths, sizes, mtimes and settings; the entry names tokenizer
//                         and fingerprint, so that no text is read again
//   index/KEY.files       same KEY; table of the file of each document (source_runs.h)
//   index/KEY.journal     same KEY; progress of an interrupted preparation
//   locks/                one lock file per entry that is being made
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "prepare/prepare.h"
#include "prepare/source_runs.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

class Cache {
 public:
  // Part of the KEY of the index. Raise it whenever the fields of the entries change.
  static constexpr uint64_t kIndexVersion = 5;

  // Creates the folders of the cache where they are missing.
  explicit Cache(std::filesystem::path folder);

  // Locks an entry before the caller makes it; `kind` is "index", "shards" or "tokenizer". Waits,
  // and logs a note, while another process holds the lock; throws StopRequested on a signal.
  FileLock lock(const std::string& kind, const std::string& key) const;
  // Does the same without waiting: returns nothing where another process holds the lock.
  std::optional<FileLock> try_lock(const std::string& kind, const std::string& key) const;

  // Returns where the first file of a tokenizer (Tokenizer::files()) lies or would lie; `name` is
  // the name of that file.
  std::filesystem::path tokenizer_path(const std::string& key, std::string_view name) const;
  // The find functions return nothing where the entry is missing. They log a warning and return
  // nothing where it is broken or one of its files is missing.
  std::optional<Tokenizer> find_tokenizer(const std::filesystem::path& path) const;
  void store_tokenizer(const std::filesystem::path& path, const Tokenizer& tokenizer) const;

  std::filesystem::path shards_folder(const std::string& fingerprint) const;
  // Returns counts, targets, shard paths and `fingerprint`; the other fields stay empty. Opens the
  // shards.
  // Checks all tokens of a shard of up to 256 MiB, and of a shard without checksums of its blocks.
  // Writes missing checksums, unless another process has the lock of the shards.
  std::optional<PreparedData> find_shards(const std::string& fingerprint) const;
  // The same for shards in another folder than shards_folder(fingerprint): shards_folder(key).
  std::optional<PreparedData> find_shards(const std::string& fingerprint,
                                          const std::string& key) const;
  // Writes the counts of `data` to info.json in the folder of its shards, which must be finished,
  // and sets its targets.
  void store_shards_info(PreparedData& data) const;
  // Removes all but the finished shards, their checksums and info.json from the folder of the
  // shards, which must exist. Does nothing where the folder is a link.
  void clean_shards(const std::string& fingerprint) const;

  std::filesystem::path journal_path(const std::string& key) const;

  // Returns the prepared data, and logs how many files and documents it has in each format. Checks
  // that the tokenizer's files have not changed, and checks the shards as find_shards() does.
  std::optional<PreparedData> find_index(const std::string& key) const;
  // Stores the entry and the table of files. Sets `data.document_files` to the path of the table.
  void store_index(const std::string& key, const std::vector<DocumentFile>& files,
                   PreparedData& data) const;

 private:
  std::filesystem::path lock_path(const std::string& kind, const std::string& key) const;
  std::filesystem::path index_path(const std::string& key) const;
  std::filesystem::path files_path(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace lmtrain
