#include "formats/token_file.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/examine.h"
#include "base/text.h"
#include "formats/token_shard_layout.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_token_file(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kData,
              str(shown(path), ": ", what,
                  "; it is damaged, cut short, or no token file (data.format): write it anew"));
}

// Ids and nothing else, from `begin` to the end of the file.
TokenFileLayout to_the_end(const MappedFile& file, std::string name, uint64_t begin,
                           uint32_t width) {
  const uint64_t size = file.bytes().size() - begin;
  if (size % width != 0)
    fail_token_file(file.path(), str("holds ", size, " bytes of ids, no multiple of ", width));
  return {std::move(name), begin, size / width, width};
}

// --- llm.c -----------------------------------------------------------------------------------

constexpr uint64_t kLlmcHeaderBytes = 1024;
constexpr int32_t kLlmcMagicGpt2 = 20240520;
constexpr int32_t kLlmcMagicLlama3 = 20240801;
constexpr int32_t kGpt2EndOfText = 50256;
constexpr int32_t kLlama3BeginOfText = 128000;

std::optional<TokenFileLayout> llmc_layout(const MappedFile& file) {
  const std::string_view bytes = file.bytes();
  if (bytes.size() < 4) return std::nullopt;
  const auto magic = value_at<int32_t>(bytes.data());
  if (magic != kLlmcMagicGpt2 && magic != kLlmcMagicLlama3) return std::nullopt;
  if (bytes.size() < kLlmcHeaderBytes)
    fail_token_file(file.path(), "the header of llm.c takes 1024 bytes");
  const bool is_gpt2 = magic == kLlmcMagicGpt2;
  const int32_t wanted_version = is_gpt2 ? 1 : 7;
  const auto version = value_at<int32_t>(bytes.data() + 4);
  if (version != wanted_version)
    fail_token_file(file.path(),
                    str("is of llm.c's version ", version, ", and ", wanted_version, " is read"));
  const uint32_t width = is_gpt2 ? 2 : 4;
  const auto num_tokens = value_at<int32_t>(bytes.data() + 8);
  const uint64_t held = bytes.size() - kLlmcHeaderBytes;
  if (num_tokens < 0 || held != static_cast<uint64_t>(num_tokens) * width) {
    fail_token_file(file.path(), str("the header says ", num_tokens, " ids of ", width,
                                     " bytes, and ", held, " bytes follow"));
  }
  return TokenFileLayout{"llm.c", kLlmcHeaderBytes, static_cast<uint64_t>(num_tokens), width,
                         is_gpt2 ? kGpt2EndOfText : kLlama3BeginOfText};
}

// --- numpy -----------------------------------------------------------------------------------

// The value of a key in numpy's header, a Python dict: up to the comma or bracket that ends it.
std::string header_value(std::string_view header, std::string_view key) {
  const size_t at = header.find(str("'", key, "':"));
  if (at == std::string_view::npos) return "";
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  const bool is_tuple = value.starts_with('(');
  return std::string(value.substr(0, value.find_first_of(is_tuple ? ")" : ",}")));
}

std::optional<TokenFileLayout> numpy_layout(const MappedFile& file) {
  const std::string_view bytes = file.bytes();
  constexpr std::string_view kNumpyMagic = "\x93NUMPY";
  if (!bytes.starts_with(kNumpyMagic)) return std::nullopt;
  if (bytes.size() < 12) fail_token_file(file.path(), "numpy's header is cut short");
  const auto major = int{static_cast<unsigned char>(bytes[6])};
  if (major < 1 || major > 3) fail_token_file(file.path(), str("is of numpy's version ", major));
  const uint64_t prefix = major == 1 ? 10 : 12;
  const uint64_t length =
      major == 1 ? value_at<uint16_t>(bytes.data() + 8) : value_at<uint32_t>(bytes.data() + 8);
  if (bytes.size() - prefix < length) fail_token_file(file.path(), "numpy's header is cut short");
  const std::string_view header = bytes.substr(prefix, length);
  const std::string type = header_value(header, "descr");
  const std::string shape = header_value(header, "shape");
  uint32_t width = 0;
  for (const auto& [name, size] : {std::pair{"|u1", 1U},
                                   {"<u2", 2U},
                                   {"<u4", 4U},
                                   {"<u8", 8U},
                                   {"<i4", 4U},
                                   {"<i8", 8U},
                                   {"<i2", 2U}}) {
    if (type == str("'", name, "'")) width = size;
  }
  if (width == 0)
    fail_token_file(file.path(), str("its type ", type, " is no little-endian integer"));
  if (header_value(header, "fortran_order") == "True" ||
      std::count(shape.begin(), shape.end(), ',') > 1 ||
      (shape.find(',') != std::string::npos && !shape.ends_with(',')))
    fail_token_file(file.path(), str("its shape ", shape, ") is not that of a flat array"));
  TokenFileLayout layout = to_the_end(file, "numpy", prefix + length, width);
  layout.is_signed = type.starts_with("'<i");
  if (shape != str("(", layout.num_tokens, ",")) {
    fail_token_file(file.path(), str("its header says shape ", shape, "), and ", layout.num_tokens,
                                     " ids follow"));
  }
  return layout;
}

// --- Megatron --------------------------------------------------------------------------------

fs::path index_of(const fs::path& path) { return fs::path(path).replace_extension(".idx"); }

// The content of the .idx file; every array of it is unaligned.
class MegatronIndex {
 public:
  MegatronIndex(const fs::path& path, uint64_t data_bytes) : file_(path), data_bytes_(data_bytes) {
    const std::string_view bytes = file_.bytes();
    constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
    constexpr uint64_t kHeaderBytes = 34;
    if (!bytes.starts_with(kMegatronMagic)) fail_token_file(path, "does not begin with MMIDIDX");
    if (bytes.size() < kHeaderBytes) fail_token_file(path, "its header takes 34 bytes");
    if (const auto version = value_at<uint64_t>(bytes.data() + 9); version != 1)
      fail_token_file(path, str("is of version ", version, ", and 1 is read"));
    const auto code = value_at<uint8_t>(bytes.data() + 17);
    width_ = width_of(code);
    is_signed_ = code >= 2 && code <= 5;
    num_sequences_ = value_at<uint64_t>(bytes.data() + 18);
    num_boundaries_ = value_at<uint64_t>(bytes.data() + 26);
    if (num_sequences_ > bytes.size() || num_boundaries_ > bytes.size())
      fail_token_file(path, "its counts do not fit into it");
    lengths_ = kHeaderBytes;
    pointers_ = lengths_ + 4 * num_sequences_;
    boundaries_ = pointers_ + 8 * num_sequences_;
    const uint64_t end = boundaries_ + 8 * num_boundaries_;
    // One more byte a sequence: modes, which mean nothing to us.
    if (bytes.size() != end && bytes.size() != end + num_sequences_)
      fail_token_file(path, str("has ", bytes.size(), " bytes, its header describes ", end));
  }

  uint32_t width() const { return width_; }
  bool is_signed() const { return is_signed_; }

  // The sequences must follow each other without gaps, and documents be whole sequences.
  std::vector<uint64_t> document_ends() const {
    std::vector<uint64_t> sequence_ends;
    uint64_t end = 0;
    for (uint64_t i = 0; i < num_sequences_; ++i) {
      const auto length = value_at<int32_t>(file_.bytes().data() + lengths_ + 4 * i);
      const auto pointer = value_at<int64_t>(file_.bytes().data() + pointers_ + 8 * i);
      if (length < 0 || pointer < 0 || static_cast<uint64_t>(pointer) != end * width_)
        fail_token_file(file_.path(), str("sequence ", i, " does not follow the one before"));
      end += static_cast<uint64_t>(length);
      if (end * width_ > data_bytes_)
        fail_token_file(file_.path(), str("sequence ", i, " ends behind the file of ids"));
      sequence_ends.push_back(end);
    }
    if (end * width_ != data_bytes_)
      fail_token_file(file_.path(),
                      str("describes ", end * width_, " bytes of ids of ", data_bytes_));
    return at_boundaries(sequence_ends);
  }

 private:
  uint32_t width_of(uint8_t code) const {
    constexpr std::array<uint32_t, 9> kWidths = {0, 1, 1, 2, 4, 8, 0, 0, 2};
    if (code >= kWidths.size() || kWidths[code] == 0)
      fail_token_file(file_.path(), str("its type of number, ", int{code}, ", is no integer"));
    return kWidths[code];
  }

  std::vector<uint64_t> at_boundaries(const std::vector<uint64_t>& sequence_ends) const {
    std::vector<uint64_t> ends;
    uint64_t previous = 0;
    for (uint64_t i = 0; i < num_boundaries_; ++i) {
      const auto sequence = value_at<uint64_t>(file_.bytes().data() + boundaries_ + 8 * i);
      const bool sound = i == 0 ? sequence == 0 : sequence >= previous;
      if (!sound || sequence > num_sequences_)
        fail_token_file(file_.path(), str("document ", i, " begins at sequence ", sequence));
      if (i > 0) ends.push_back(sequence == 0 ? 0 : sequence_ends[sequence - 1]);
      previous = sequence;
    }
    if (previous != num_sequences_)
      fail_token_file(file_.path(),
                      str("its documents hold ", previous, " of ", num_sequences_, " sequences"));
    return ends;
  }

  MappedFile file_;
  uint64_t data_bytes_;
  uint32_t width_ = 0;
  bool is_signed_ = false;
  uint64_t num_sequences_ = 0;
  uint64_t num_boundaries_ = 0;
  uint64_t lengths_ = 0;
  uint64_t pointers_ = 0;
  uint64_t boundaries_ = 0;
};

std::optional<TokenFileLayout> megatron_layout(const MappedFile& file) {
  const fs::path index_path = index_of(file.path());
  if (index_path == file.path() || !is_there(index_path)) return std::nullopt;
  const MegatronIndex index(index_path, file.bytes().size());
  TokenFileLayout layout = to_the_end(file, "Megatron", 0, index.width());
  layout.is_signed = index.is_signed();
  layout.document_ends = index.document_ends();
  return layout;
}

// --- ids and nothing else ----------------------------------------------------------------------

// Whether the file may hold ids of four bytes: all are in the vocabulary.
bool fits_four_bytes(std::string_view bytes, int64_t vocab_size) {
  if (bytes.size() % 4 != 0) return false;
  for (size_t i = 0; i < bytes.size(); i += 4) {
    if (value_at<uint32_t>(bytes.data() + i) >= vocab_size) return false;
  }
  return true;
}

TokenFileLayout plain_layout(const MappedFile& file, int64_t vocab_size, uint32_t width) {
  if (width == 0) {
    width = shard_bytes_per_token(static_cast<uint64_t>(vocab_size));
    const std::string_view bytes = file.bytes();
    if (width == 2 && !bytes.empty() && fits_four_bytes(bytes, vocab_size)) {
      throw Error(ErrorKind::kData,
                  str(shown(file.path()), ": may hold ", bytes.size() / 2, " ids of uint16 or ",
                      bytes.size() / 4, " of uint32, since all are below ", vocab_size,
                      " either way; say which: data.token_dtype \"uint16\" or \"uint32\""));
    }
    if (width == 4 && bytes.size() % 4 == 2) {
      fail_token_file(file.path(),
                      str("holds ", bytes.size(),
                          " bytes of ids, no multiple of 4 (uint32, for a "
                          "vocabulary above 65536; data.token_dtype \"uint16\" reads others)"));
    }
  }
  return to_the_end(file, "plain ids", 0, width);
}

void require_width(const MappedFile& file, const TokenFileLayout& layout, uint32_t width) {
  if (width == 0 || layout.bytes_per_token == width) return;
  throw Error(ErrorKind::kData,
              str(shown(file.path()), ": is a file of ", layout.name, " with ids of ",
                  layout.bytes_per_token, " bytes, and data.token_dtype says ", width,
                  "; take data.token_dtype out, which is for files that do not say it"));
}

}  // namespace

bool is_token_file_index(const fs::path& path) { return path.extension() == ".idx"; }

TokenFileLayout read_token_file_layout(const MappedFile& file, int64_t vocab_size, uint32_t width) {
  for (const auto& find : {numpy_layout, llmc_layout, megatron_layout}) {
    if (std::optional<TokenFileLayout> layout = find(file)) {
      require_width(file, *layout, width);
      return *std::move(layout);
    }
  }
  return plain_layout(file, vocab_size, width);
}

}  // namespace lmtrain
