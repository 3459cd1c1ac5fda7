#include "corpus/shards/token_scan.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/terminal/log.h"
#include "base/terminal/progress_bar.h"
#include "base/text.h"
#include "corpus/readers/text_hash.h"
#include "corpus/shards/held_out.h"
#include "formats/token_file.h"

namespace lmtrain {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

// The hash of ids that come in any portions.
class IdHasher {
 public:
  void add(int32_t id) {
    pending_.push_back(id);
    if (pending_.size() == kChunk) flush();
  }
  Hash128 finish() {
    flush();
    const Hash128 hash = hasher_.digest();
    hasher_ = Hasher();
    return hash;
  }

 private:
  void flush() {
    hasher_.add(std::string_view(reinterpret_cast<const char*>(pending_.data()),
                                 pending_.size() * sizeof(int32_t)));
    pending_.clear();
  }
  Hasher hasher_;
  std::vector<int32_t> pending_;
};

class TokenScan {
 public:
  TokenScan(const Tokenizer& tokenizer, ProgressBar& progress)
      : tokenizer_(tokenizer), progress_(progress), piece_bytes_(tokenizer.piece_bytes()) {}

  void add_file(const SourceFile& source) {
    const MappedFile file(source.path);
    const TokenFileLayout layout = read_token_file_layout(file, tokenizer_.vocab_size());
    path_ = source.path;
    result_.files.push_back({source.path, source.size, source.mtime_ns, layout.begin,
                             layout.num_tokens, layout.bytes_per_token});
    const size_t documents_before = result_.documents.size();
    start_document(0);
    if (layout.name == "Megatron") {
      scan_indexed(file, layout);
    } else {
      scan_delimited(file, layout);
    }
    add_block_sums(file.bytes(), file.bytes().size(), result_.files.back().sums);
    require_unchanged(source);
    if (result_.documents.size() == documents_before + 1 && layout.num_tokens > kSuspicious)
      log_warning(str(source.path.string(), ": one document of ", layout.num_tokens,
                      " tokens; is it made with this tokenizer.model?"));
  }

  ScannedTokens finish() {
    result_.content = content_.digest();
    return std::move(result_);
  }

 private:
  static constexpr uint64_t kSuspicious = 10'000'000;

  // Calls visit(id, index) for every id, checked.
  template <class Visit>
  void for_each_id(const MappedFile& file, const TokenFileLayout& layout, const Visit& visit) {
    std::vector<int32_t> ids(kChunk);
    for (uint64_t index = 0; index < layout.num_tokens;) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(kChunk, layout.num_tokens - index));
      const uint64_t byte = layout.begin + index * layout.bytes_per_token;
      copy_token_ids(file.bytes().data() + byte, layout.bytes_per_token,
                     std::span(ids).first(count));
      for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || ids[i] >= tokenizer_.vocab_size()) fail_id(layout, index + i, ids[i]);
        visit(ids[i], index + i);
      }
      index += count;
      // While these bytes are in memory.
      add_block_sums(file.bytes(), byte + count * layout.bytes_per_token,
                     result_.files.back().sums);
      progress_.advance(count * layout.bytes_per_token);
    }
  }

  [[noreturn]] void fail_id(const TokenFileLayout& layout, uint64_t index, int32_t id) const {
    throw Error(ErrorKind::kData,
                str(path_.string(), ": token ", index, " (byte ",
                    layout.begin + index * layout.bytes_per_token, ") is ",
                    id < 0 ? std::string("no id") : str("the id ", id),
                    ", and tokenizer.model has ", tokenizer_.vocab_size(),
                    " pieces; the file (read as ", layout.name, ", ", layout.bytes_per_token,
                    " bytes an id) was made with another tokenizer, or is no token file"));
  }

  void scan_delimited(const MappedFile& file, const TokenFileLayout& layout) {
    const bool is_given = layout.document_begins_with.has_value();
    int32_t begins_with = is_given ? *layout.document_begins_with : tokenizer_.bos_id();
    int32_t ends_with = is_given ? -1 : tokenizer_.eos_id();
    const bool is_one_id = begins_with == ends_with;
    for_each_id(file, layout, [&](int32_t id, uint64_t index) {
      // One id for both ends documents, unless the first one begins with it.
      if (index == 0 && is_one_id) (id == begins_with ? ends_with : begins_with) = -1;
      if (id == begins_with && document_.num_tokens > 0) {
        end_document();
        start_document(index);
      }
      add_id(id);
      if (id == ends_with) {
        end_document();
        start_document(index + 1);
      }
    });
    if (document_.num_tokens > 0) end_document();
  }

  void scan_indexed(const MappedFile& file, const TokenFileLayout& layout) {
    size_t next = 0;
    const auto end_those_before = [&](uint64_t index) {
      for (; next < layout.document_ends.size() && layout.document_ends[next] <= index; ++next) {
        end_document();
        start_document(layout.document_ends[next]);
      }
    };
    for_each_id(file, layout, [&](int32_t id, uint64_t index) {
      end_those_before(index);
      add_id(id);
    });
    end_those_before(layout.num_tokens);
  }

  void start_document(uint64_t index) { document_ = {result_.files.size() - 1, index, 0, 0}; }
  void add_id(int32_t id) {
    hasher_.add(id);
    ++document_.num_tokens;
    document_.raw_bytes += piece_bytes_[static_cast<size_t>(id)];
  }
  void end_document() {
    const Hash128 hash = hasher_.finish();
    content_.add(hash.low).add(hash.high);
    result_.hashes.push_back(text_hash(hash));
    result_.documents.push_back(document_);
    if (document_.raw_bytes == 0) ++result_.empty_documents;
  }

  const Tokenizer& tokenizer_;
  ProgressBar& progress_;
  std::vector<uint32_t> piece_bytes_;
  std::filesystem::path path_;
  IdHasher hasher_;
  Hasher content_;
  ReferencedDocument document_;
  ScannedTokens result_;
};

}  // namespace

ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               const std::string& action) {
  uint64_t total = 0;
  for (const SourceFile& file : files) total += file.size;
  ProgressBar progress(action, total);
  TokenScan scan(tokenizer, progress);
  for (const SourceFile& file : files) scan.add_file(file);
  return scan.finish();
}

}  // namespace lmtrain
