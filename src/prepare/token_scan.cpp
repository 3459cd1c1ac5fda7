#include "prepare/token_scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "formats/token_file.h"
#include "prepare/held_out.h"
#include "text/id_rows.h"

namespace lmtrain {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

// Hashes ids that come in any portions.
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

// Returns, by id, whether no text gives the id: it is a control piece, but not BOS, EOS or padding,
// which stand between texts.
std::vector<bool> ids_without_text(const Tokenizer& tokenizer) {
  const std::vector<uint32_t> bytes = tokenizer.piece_bytes();
  std::vector<bool> is_no_text(bytes.size());
  for (size_t id = 0; id < bytes.size(); ++id) is_no_text[id] = bytes[id] == 0;
  for (const int32_t id : {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.pad_id()}) {
    if (id >= 0 && static_cast<size_t>(id) < is_no_text.size())
      is_no_text[static_cast<size_t>(id)] = false;
  }
  return is_no_text;
}

constexpr size_t kFewestPairs = 64;

bool every_second_is_zero(const std::vector<int32_t>& ids) {
  for (size_t i = 1; i < ids.size(); i += 2) {
    if (ids[i] != 0) return false;
  }
  return true;
}

double entropy(const std::array<size_t, 256>& counts, size_t total) {
  double bits = 0;
  for (const size_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(total);
    bits -= share * std::log2(share);
  }
  return bits;
}

// Frequent pieces have low ids, so the second byte of a text's ids has a lower entropy than the
// first. Where its entropy is much higher, the two bytes were swapped.
bool has_swapped_bytes(const std::vector<int32_t>& ids) {
  constexpr double kMuchMore = 1;
  std::array<size_t, 256> low{};
  std::array<size_t, 256> high{};
  for (const int32_t id : ids) {
    ++low[static_cast<uint32_t>(id) & 0xFFU];
    ++high[(static_cast<uint32_t>(id) >> 8U) & 0xFFU];
  }
  return entropy(high, ids.size()) > entropy(low, ids.size()) + kMuchMore;
}

class TokenScan {
 public:
  TokenScan(const Tokenizer& tokenizer, const TokenScanOptions& options, ProgressBar& progress)
      : tokenizer_(tokenizer),
        options_(options),
        id_bytes_(options.id_bytes),
        progress_(progress),
        text_bytes_(tokenizer),
        is_no_text_(ids_without_text(tokenizer)) {}

  void add_file(const SourceFile& source) {
    const size_t documents_before = result_.documents.size();
    if (source.format == "tokens") {
      add_token_file(source);
    } else {
      add_table(source);
    }
    FormatCount& count = result_.formats[source.format];
    ++count.files;
    count.documents += std::ssize(result_.documents) - static_cast<int64_t>(documents_before);
  }

  ScannedTokens finish() {
    if (copy_) {
      flush_copy();
      copy_->finish();
    }
    result_.content = content_.digest();
    return std::move(result_);
  }

 private:
  static constexpr uint64_t kSuspicious = 10'000'000;

  // A row is a document. Its ids are copied.
  void add_table(const SourceFile& source) {
    path_ = source.path;
    IdReader reader = files_.open(source.path, source.format, options_.text_field, id_bytes_,
                                  options_.max_document);
    if (!copy_) copy_.emplace(options_.copy);
    const uint64_t begin = copy_->size() + pending_.size();
    result_.files.push_back({options_.copy, 0, 0, begin, 0, sizeof(int32_t)});
    result_.has_copies = true;
    uint64_t counted = 0;
    try {
      for (IdDocument row; reader.next(row);) {
        add_row(row);
        progress_.reach(reader.bytes_read(), source.size, counted);
      }
    } catch (const Error& error) {
      // A file that is still being written looks damaged.
      if (error.kind() == ErrorKind::kData) require_unchanged(source);
      throw;
    }
    progress_.reach(source.size, source.size, counted);
    require_unchanged(source);
    result_.skipped += reader.skipped();
    const IdColumns& columns = reader.columns();
    result_.ignored_columns.insert(columns.others.begin(), columns.others.end());
    if (columns.has_labels) result_.ignored_columns.insert(kLabelsColumn);
  }
  void add_row(const IdDocument& row) {
    ReferencedFile& file = result_.files.back();
    start_document(file.num_tokens);
    for (size_t i = 0; i < row.ids.size(); ++i) {
      const int64_t id = row.ids[i];
      if (id < 0 || id >= tokenizer_.vocab_size())
        fail_row_id(row.row, row.first + static_cast<int64_t>(i), id);
      const auto token = static_cast<int32_t>(id);
      add_id(token);
      pending_ += object_bytes(token);
    }
    file.num_tokens += row.ids.size();
    end_document();
    if (pending_.size() >= kCopyBytes) flush_copy();
  }
  void flush_copy() {
    copy_->write(pending_);
    pending_.clear();
  }
  [[noreturn]] void fail_row_id(int64_t row, int64_t position, int64_t id) const {
    throw Error(ErrorKind::kData,
                str(shown(path_), ": row ", row, ", position ", position, ": the id ", id,
                    id < 0 ? " is no id" : " is outside the vocabulary",
                    ", and tokenizer.model has ", tokenizer_.vocab_size(),
                    " pieces; the ids were made with another tokenizer, or are none"));
  }

  void add_token_file(const SourceFile& source) {
    const MappedFile file(source.path);
    const TokenFileLayout layout = read_token_file_layout(file, tokenizer_.vocab_size(), id_bytes_);
    path_ = source.path;
    require_likely_ids(file, layout);
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
      log_warning(str(shown(source.path), ": one document of ", layout.num_tokens,
                      " tokens; is it made with this tokenizer.model?"));
  }

  // Calls visit(id, index) for every id, checked.
  template <class Visit>
  void for_each_id(const MappedFile& file, const TokenFileLayout& layout, const Visit& visit) {
    std::vector<int32_t> ids(kChunk);
    // From here on an id is negative, or is none of the tokenizer.
    const int64_t sign = int64_t{1} << (8 * std::min(layout.bytes_per_token, 4U) - 1);
    const int64_t end =
        layout.is_signed ? std::min(sign, tokenizer_.vocab_size()) : tokenizer_.vocab_size();
    for (uint64_t index = 0; index < layout.num_tokens;) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(kChunk, layout.num_tokens - index));
      const uint64_t byte = layout.begin + index * layout.bytes_per_token;
      copy_token_ids(file.bytes().data() + byte, layout.bytes_per_token,
                     std::span(ids).first(count));
      for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || ids[i] >= end)
          fail_id(layout, index + i, layout.is_signed && ids[i] >= sign ? -1 : ids[i]);
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
                str(shown(path_), ": token ", index, " (byte ",
                    layout.begin + index * layout.bytes_per_token, ") is ",
                    id < 0 ? std::string("no id") : str("the id ", id),
                    ", and tokenizer.model has ", tokenizer_.vocab_size(),
                    " pieces; the file (read as ", layout.name, ", ", layout.bytes_per_token,
                    " bytes an id) was made with another tokenizer, or is no token file",
                    is_plain(layout) ? ", or data.token_dtype must say another width" : ""));
  }

  static bool is_plain(const TokenFileLayout& layout) { return layout.name == "plain ids"; }

  // Any bytes are ids. Throws for ids that are surely not those of a text.
  void require_likely_ids(const MappedFile& file, const TokenFileLayout& layout) const {
    constexpr uint64_t kLooked = uint64_t{1} << 18;
    constexpr uint64_t kFewest = 4096;
    std::vector<int32_t> ids(static_cast<size_t>(std::min(kLooked, layout.num_tokens)));
    copy_token_ids(file.bytes().data() + layout.begin, layout.bytes_per_token, std::span(ids));
    const bool is_doubled = is_plain(layout) && id_bytes_ == 0 && layout.bytes_per_token == 4;
    if (is_doubled && ids.size() >= kFewestPairs && every_second_is_zero(ids))
      fail_unlikely("every second id is 0, as where ids of 8 bytes are read as uint32");
    if (ids.size() < kFewest) return;
    std::unordered_map<int32_t, size_t> counts;
    size_t most = 0;
    int32_t most_frequent = 0;
    size_t no_text = 0;
    for (const int32_t id : ids) {
      if (const size_t count = ++counts[id]; count > most) {
        most = count;
        most_frequent = id;
      }
      if (id >= 0 && id < tokenizer_.vocab_size() && is_no_text_[static_cast<size_t>(id)])
        ++no_text;
    }
    if (100 * most > 99 * ids.size())
      fail_unlikely(str("of its first ", ids.size(), " ids ", most, " are ", most_frequent));
    if (2 * no_text > ids.size()) {
      fail_unlikely(
          str("of its first ", ids.size(), " ids ", no_text, " are of pieces that no text has"));
    }
    if (is_plain(layout) && has_swapped_bytes(ids)) {
      fail_unlikely(
          "its ids look like numbers whose high byte comes first (big-endian), and "
          "little-endian ones are read");
    }
  }

  [[noreturn]] void fail_unlikely(const std::string& what) const {
    throw Error(ErrorKind::kData, str(shown(path_), ": ", what,
                                      "; it is no token file, or of another layout: write "
                                      "its ids anew"));
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

  void start_document(uint64_t index) {
    document_ = {result_.files.size() - 1, index, 0, 0};
    text_bytes_.restart();
  }
  void add_id(int32_t id) {
    hasher_.add(id);
    ++document_.num_tokens;
    document_.raw_bytes += static_cast<uint64_t>(text_bytes_.add(id));
  }
  void end_document() {
    const Hash128 hash = hasher_.finish();
    content_.add(hash);
    result_.hashes.push_back(text_hash(hash));
    result_.documents.push_back(document_);
    if (document_.raw_bytes == 0) ++result_.empty_documents;
  }

  static constexpr size_t kCopyBytes = size_t{1} << 20;

  const Tokenizer& tokenizer_;
  const TokenScanOptions& options_;
  uint32_t id_bytes_;
  ProgressBar& progress_;
  TextBytes text_bytes_;
  std::vector<bool> is_no_text_;  // by id: a text has no such id
  std::filesystem::path path_;
  IdHasher hasher_;
  Hasher content_;
  ReferencedDocument document_;
  ScannedTokens result_;
  IdFiles files_;
  std::optional<FileWriter> copy_;
  std::string pending_;  // of the copy, not written yet
};

}  // namespace

void copy_document_ids(const MappedFile& mapped, const ReferencedFile& file, uint64_t begin,
                       std::span<int32_t> ids) {
  const std::string_view bytes = mapped.bytes();
  const uint64_t byte = file.begin + begin * file.bytes_per_token;
  if (byte > bytes.size() || ids.size() > (bytes.size() - byte) / file.bytes_per_token)
    fail_changed_file(mapped.path());
  copy_token_ids(bytes.data() + byte, file.bytes_per_token, ids);
}

ScannedTokens scan_token_files(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
                               const TokenScanOptions& options, const std::string& action) {
  uint64_t total = 0;
  for (const SourceFile& file : files) total += file.size;
  ProgressBar progress(action, total);
  TokenScan scan(tokenizer, options, progress);
  for (const SourceFile& file : files) scan.add_file(file);
  return scan.finish();
}

}  // namespace lmtrain
