#include "corpus/shards/token_parts.h"

#include <optional>
#include <span>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

struct Block {
  uint64_t hash = 0;  // its place in the document included
  uint64_t tokens = 0;
  uint64_t raw_bytes = 0;
};

// Reads ids of scanned documents.
class BlockReader {
 public:
  BlockReader(const ScannedTokens& scan, const Tokenizer& tokenizer)
      : scan_(scan), piece_bytes_(bytes_of_pieces(tokenizer)) {}

  // The blocks of a document of the scan; a short one is a block as it is.
  std::vector<Block> blocks_of(size_t index, uint64_t size) {
    const ReferencedDocument& document = scan_.documents[index];
    if (document.num_tokens <= size + size / 2)
      return {{scan_.hashes[index], document.num_tokens, document.raw_bytes}};
    std::vector<Block> blocks;
    for (uint64_t begin = 0; begin < document.num_tokens;) {
      const uint64_t left = document.num_tokens - begin;
      const uint64_t count = left > size + size / 2 ? size : left;
      ids_.resize(count);
      read(document, begin);
      blocks.push_back({block_hash(hash_of_ids(), begin), count, 0});
      for (const int32_t id : ids_) {
        if (static_cast<size_t>(id) >= piece_bytes_.size()) fail_changed();
        blocks.back().raw_bytes += piece_bytes_[static_cast<size_t>(id)];
      }
      begin += count;
    }
    return blocks;
  }

 private:
  void read(const ReferencedDocument& document, uint64_t begin) {
    const ReferencedFile& file = scan_.files[document.file];
    if (!open_ || open_file_ != document.file) {
      open_.emplace(file.path);
      open_file_ = document.file;
    }
    const uint64_t byte = file.begin + (document.begin + begin) * file.bytes_per_token;
    const uint64_t size = open_->bytes().size();
    if (byte > size || ids_.size() > (size - byte) / file.bytes_per_token) fail_changed();
    copy_token_ids(open_->bytes().data() + byte, file.bytes_per_token, ids_);
  }
  // The scan has found every id in its file and below the vocabulary.
  [[noreturn]] void fail_changed() const {
    throw Error(ErrorKind::kData,
                str(open_->path().string(),
                    ": changed while it was read; run the command again once it is complete"));
  }
  uint64_t hash_of_ids() const {
    return text_hash(Hasher()
                         .add(std::string_view(reinterpret_cast<const char*>(ids_.data()),
                                               ids_.size() * sizeof(int32_t)))
                         .digest());
  }

  const ScannedTokens& scan_;
  std::vector<uint32_t> piece_bytes_;
  std::vector<int32_t> ids_;
  std::optional<MappedFile> open_;
  uint64_t open_file_ = 0;
};

// The parts of a document that consists of these blocks.
std::vector<TokenPart> parts_of(const HoldOut& held_out, int32_t source,
                                const ReferencedDocument& document,
                                const std::vector<Block>& blocks) {
  std::vector<TokenPart> parts;
  ReferencedDocument next{document.file, document.begin, 0, 0};
  for (const Block& block : blocks) {
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
  for (size_t i = 0; i < scan.documents.size(); ++i)
    shapes.add(source_of(i), scan.hashes[i], scan.documents[i].num_tokens);
  HoldOut held_out(fraction, shapes.shapes(), kHoldOutTokens);
  BlockReader reader(scan, tokenizer);
  std::vector<std::vector<Block>> blocks;  // of documents whose rule is by blocks
  held_out.choose([&](const auto& wanted, const auto& add) {
    blocks.resize(scan.documents.size());
    for (size_t i = 0; i < scan.documents.size(); ++i) {
      if (!wanted(source_of(i))) continue;
      if (blocks[i].empty()) blocks[i] = reader.blocks_of(i, held_out.rule_of(source_of(i)).block);
      for (const Block& block : blocks[i]) add(source_of(i), block.hash, block.tokens);
    }
  });
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
