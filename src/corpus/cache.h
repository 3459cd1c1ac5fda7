// data.cache_dir: what was prepared before. Entries are published by rename and checked when read
// (JSON by a checksum of its own); a missing or broken one is as good as none. docs/data.md
// describes the layout.
//
//   tokenizers/KEY/       KEY: content and settings that its training depends on
//   shards/KEY/           KEY: the fingerprint of the data; shards with the checksums of their
//   blocks index/KEY.json        KEY: paths, sizes, mtimes, settings; leads to tokenizer and
//   fingerprint,
//                         so that no text is read again
//   index/KEY.files       of the same KEY: which documents are of which file (document_files.h)
//   index/KEY.journal     of the same KEY: how far an interrupted preparation came
//   locks/                one lock file per entry being made
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "corpus/prepare.h"
#include "corpus/shards/document_files.h"
#include "corpus/tokenizer/tokenizer.h"

namespace lmtrain {

class Cache {
 public:
  // Part of the KEY of the index; raised whenever the fields of its entries change.
  static constexpr uint64_t kIndexVersion = 3;

  explicit Cache(std::filesystem::path folder);

  // Waits, with a note, while another process makes the same entry.
  FileLock lock(const std::string& kind, const std::string& key) const;

  std::filesystem::path tokenizer_path(const std::string& key) const;
  std::optional<Tokenizer> find_tokenizer(const std::string& key) const;
  void store_tokenizer(const std::string& key, const Tokenizer& tokenizer) const;

  std::filesystem::path shards_folder(const std::string& fingerprint) const;
  // The counts and shards of a fingerprint; tokenizer_model is left to the caller.
  std::optional<PreparedData> find_shards(const std::string& fingerprint) const;
  void store_shards_info(const PreparedData& data) const;
  // Removes what a preparation left beside the finished shards; not where their folder is a link.
  void clean_shards(const std::string& fingerprint) const;

  std::filesystem::path journal_path(const std::string& key) const;

  // Notes the files and documents by format.
  std::optional<PreparedData> find_index(const std::string& key) const;
  // Stores the entry and the table of files, and names the latter in `data`.
  void store_index(const std::string& key, const std::vector<DocumentFile>& files,
                   PreparedData& data) const;

 private:
  std::filesystem::path index_path(const std::string& key) const;
  std::filesystem::path files_path(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace lmtrain
