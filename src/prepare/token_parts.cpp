#include "prepare/token_parts.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "prepare/content_blocks.h"
#include "prepare/held_out.h"
#include "prepare/overlap.h"

namespace lmtrain {
namespace {

struct TokenBlock {
  uint64_t hash = 0;  // of its ids
  uint64_t tokens = 0;
  uint64_t raw_bytes = 0;
};

// Reads ids of scanned documents.
class BlockReader {
 public:
  BlockReader(const ScannedTokens& scan, const Tokenizer& tokenizer)
      : scan_(scan), text_bytes_(tokenizer) {}

  // Returns the blocks of a document of the scan. A short document is one block.
  std::vector<TokenBlock> blocks_of(size_t index, uint64_t size) {
    const ReferencedDocument& document = scan_.documents[index];
    if (document.num_tokens <= size + size / 2)
      return {{scan_.hashes[index], document.num_tokens, document.raw_bytes}};
    std::vector<TokenBlock> blocks;
    uint64_t begin = 0;
    text_bytes_.restart();
    for (const uint64_t end : block_ends_of(document, size)) {
      ids_.resize(end - begin);
      read(document, begin);
      blocks.push_back({hash_of_ids(), end - begin, 0});
      int64_t raw_bytes = 0;
      for (const int32_t id : ids_) {
        // The scan has found every id below the vocabulary.
        if (static_cast<size_t>(id) >= text_bytes_.vocab_size()) fail_changed_file(open_->path());
        raw_bytes += text_bytes_.add(id);
      }
      blocks.back().raw_bytes = static_cast<uint64_t>(std::max<int64_t>(0, raw_bytes));
      begin = end;
    }
    return blocks;
  }

 private:
  // Returns the ends of blocks as block_ends() does for text (content_blocks.h). A cut may lie
  // after any id.
  std::vector<uint64_t> block_ends_of(const ReferencedDocument& document, uint64_t size) {
    constexpr uint64_t kWindow = ContentCuts::kWindowBytes / sizeof(int32_t);
    constexpr uint64_t kChunk = uint64_t{1} << 16;
    ContentCuts cuts(size / 2, document.num_tokens);
    for (uint64_t next = 1; next < document.num_tokens; next += kChunk) {
      const uint64_t first = next - std::min(next, kWindow);  // id of the first window
      const uint64_t end = std::min(next + kChunk, document.num_tokens);
      ids_.resize(end - first);
      read(document, first);
      const std::string_view bytes = bytes_of_ids();
      for (uint64_t at = next; at < end; ++at)
        cuts.add(at, content_key(bytes.substr(0, (at - first) * sizeof(int32_t))));
    }
    std::vector<uint64_t> ends;
    uint64_t begin = 0;
    const auto cut_evenly = [&](uint64_t end) {
      for (; end - begin > size + size / 2; begin += size) ends.push_back(begin + size);
      ends.push_back(end);
      begin = end;
    };
    for (const uint64_t cut : cuts.finish()) cut_evenly(cut);
    cut_evenly(document.num_tokens);
    return ends;
  }
  void read(const ReferencedDocument& document, uint64_t begin) {
    const ReferencedFile& file = scan_.files[document.file];
    if (!open_ || open_file_ != document.file) {
      open_.emplace(file.path);
      open_file_ = document.file;
    }
    copy_document_ids(*open_, file, document.begin + begin, ids_);
  }
  std::string_view bytes_of_ids() const {
    return {reinterpret_cast<const char*>(ids_.data()), ids_.size() * sizeof(int32_t)};
  }
  uint64_t hash_of_ids() const { return text_hash(Hasher().add(bytes_of_ids()).digest()); }

  const ScannedTokens& scan_;
  TextBytes text_bytes_;
  std::vector<int32_t> ids_;
  std::optional<MappedFile> open_;
  uint64_t open_file_ = 0;
};

// Returns the parts of a document, which consists of these blocks.
std::vector<TokenPart> parts_of(const HoldOut& held_out, int32_t source,
                                const ReferencedDocument& document,
                                const std::vector<TokenBlock>& blocks) {
  std::vector<TokenPart> parts;
  ReferencedDocument next{document.file, document.begin, 0, 0};
  for (const TokenBlock& block : blocks) {
    const bool is_out = held_out.holds_out(source, block.hash);
    if (parts.empty() || parts.back().held_out != is_out) {
      parts.push_back({next, block.hash, is_out});
    } else {
      parts.back().hash = hash_combine(parts.back().hash, block.hash);
    }
    parts.back().range.num_tokens += block.tokens;
    parts.back().range.raw_bytes += block.raw_bytes;
    next.begin += block.tokens;
  }
  return parts;
}

}  // namespace

void hold_out_tokens(const ScannedTokens& scan, const std::vector<SourceFile>& files,
                     const Tokenizer& tokenizer, double fraction, Hasher& hasher,
                     const std::function<void(const TokenPart&)>& visit) {
  const auto source_of = [&](size_t document) {
    return files[scan.documents[document].file].source;
  };
  SourceShapes shapes;
  CommonDocuments common;
  for (size_t i = 0; i < scan.documents.size(); ++i) {
    shapes.add(source_of(i), scan.hashes[i], scan.documents[i].num_tokens);
    common.add(source_of(i), scan.hashes[i], scan.documents[i].num_tokens);
  }
  HoldOut held_out(fraction, shapes.shapes(), common.groups(shapes.shapes().size()),
                   kHoldOutTokens);
  BlockReader reader(scan, tokenizer);
  std::vector<std::vector<TokenBlock>> blocks;  // of documents whose rule is by blocks
  held_out.choose([&](const auto& wanted, const auto& add) {
    blocks.resize(scan.documents.size());
    for (size_t i = 0; i < scan.documents.size(); ++i) {
      if (!wanted(source_of(i))) continue;
      if (blocks[i].empty()) blocks[i] = reader.blocks_of(i, held_out.rule_of(source_of(i)).block);
      for (const TokenBlock& block : blocks[i]) add(source_of(i), block.hash, block.tokens);
    }
  });
  note_joined_sources(held_out);
  held_out.add_to(hasher, fraction, shapes.order());
  for (size_t i = 0; i < scan.documents.size(); ++i) {
    const ReferencedDocument& document = scan.documents[i];
    if (held_out.rule_of(source_of(i)).block == 0) {
      visit({document, scan.hashes[i], held_out.holds_out(source_of(i), scan.hashes[i])});
      continue;
    }
    for (const TokenPart& part : parts_of(held_out, source_of(i), document, blocks[i])) visit(part);
  }
}

}  // namespace lmtrain
