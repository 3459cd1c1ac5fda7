#include "text/content.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/foreign_text.h"
#include "base/hash.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/safetensors.h"
#include "text/byte_stream.h"
#include "text/json_line.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Kind = Content::Kind;

constexpr size_t kHeadBytes = size_t{1} << 13;
constexpr size_t kJsonHeadBytes = size_t{1} << 18;

struct Magic {
  size_t offset;
  std::string_view bytes;
  const char* description;
  const char* advice = "";
};

// A PDF begins with this and its version; all of the rest may be text.
constexpr std::string_view kPdf = "%PDF-";

constexpr std::array kMagics = {
    Magic{0, literal_bytes("PK\x03\x04"), "a zip archive"},
    Magic{0, literal_bytes("PK\x05\x06"), "a zip archive"},
    Magic{257, literal_bytes("ustar"), "a tar archive", "unpack it"},
    Magic{0, literal_bytes("\x1F\x8B"), "gzip data", "its name must end in .gz"},
    Magic{0, literal_bytes("\x28\xB5\x2F\xFD"), "zstd data", "its name must end in .zst"},
    Magic{0, literal_bytes("BZh"), "bzip2 data", "its name must end in .bz2"},
    Magic{0,
          literal_bytes("\xFD"
                        "7zXZ\0"),
          "xz data", "its name must end in .xz"},
    Magic{0, literal_bytes("\x04\x22\x4D\x18"), "lz4 data"},
    Magic{0, literal_bytes("7z\xBC\xAF\x27\x1C"), "a 7z archive"},
    Magic{0, literal_bytes("Rar!\x1A\x07"), "a rar archive"},
    Magic{0, literal_bytes("\x93NUMPY"), "a numpy array",
          "token ids are read with the format tokens"},
    Magic{0, literal_bytes("MMIDIDX"), "an index of Megatron",
          "token ids are read with the format tokens"},
    Magic{0, literal_bytes("\x89HDF\r\n\x1A\n"), "an HDF5 file"},
    Magic{0, literal_bytes("SQLite format 3"), "an SQLite database"},
    Magic{0, literal_bytes("GGUF"), "model weights (GGUF)"},
    Magic{0,
          literal_bytes("\x7F"
                        "ELF"),
          "a program (ELF)"},
    Magic{0, literal_bytes("MZ\x90"), "a Windows program"},
    Magic{0, literal_bytes("\xCA\xFE\xBA\xBE"), "compiled Java or a Mach-O program"},
    Magic{0, literal_bytes("\xCF\xFA\xED\xFE"), "a Mach-O program"},
    Magic{0, literal_bytes("\0asm"), "WebAssembly"},
    Magic{0, literal_bytes("\x89PNG\r\n"), "a PNG image"},
    Magic{0, literal_bytes("\xFF\xD8\xFF"), "a JPEG image"},
    Magic{0, literal_bytes("GIF87a"), "a GIF image"},
    Magic{0, literal_bytes("GIF89a"), "a GIF image"},
    Magic{8, literal_bytes("WEBP"), "a WebP image"},
    Magic{0, literal_bytes("OggS"), "an Ogg file"},
    Magic{0, literal_bytes("fLaC"), "a FLAC file"},
    Magic{4, literal_bytes("ftyp"), "a video or HEIF image"},
    Magic{0, literal_bytes("PARE"), "an encrypted Parquet file"},
    Magic{0, literal_bytes("Obj\x01"), "an Avro file"},
    Magic{0, literal_bytes("LITPKDS"),
          "token ids in the layout of lit-gpt (LITPKDS), which is not read",
          "write the ids alone, as uint16 or uint32"},
    Magic{0, literal_bytes("TNTIDX\0\0"), "an index of fairseq"},
    Magic{0, literal_bytes("\x37\xA4\x30\xEC"), "a zstd dictionary"},
    Magic{0, literal_bytes("FEA1"), "a Feather file of version 1, which is not read"},
    Magic{0, literal_bytes("24ka"), "model weights (llama2.c)"},
    Magic{0, literal_bytes("lmgg"), "model weights (GGML)"},
    Magic{0, literal_bytes("tjgg"), "model weights (GGML)"},
    Magic{0, literal_bytes("fmgg"), "model weights (GGML)"},
    Magic{0, literal_bytes("ORC\x0A"), "an ORC file"},
    Magic{0, literal_bytes("RIFF"), "a sound, video or image (RIFF)"},
    Magic{16, literal_bytes("\xDE\xC0\xEF\xBE"), "an LMDB database"},
    Magic{0, literal_bytes("\xC6\xD6\x34\x01"), "model weights of llm.c"},
    Magic{0, literal_bytes("\xC7\xD6\x34\x01"), "a debug state of llm.c"},
    Magic{0, literal_bytes("\xC8\xD6\x34\x01"), "a tokenizer of llm.c"},
    Magic{0, literal_bytes("\x8A\xD8\x34\x01"), "evaluation questions of llm.c"},
};

// A message of Arrow's IPC stream: the mark of a continuation, then the size of its metadata.
bool is_arrow_stream(std::string_view head) {
  if (!head.starts_with("\xFF\xFF\xFF\xFF") || head.size() < 8) return false;
  const auto size = value_at<uint32_t>(head.data() + 4);
  return size > 0 && size < (uint32_t{1} << 28) && size % 8 == 0;
}

bool is_safetensors(std::string_view head) {
  const std::optional<uint64_t> header = safetensors_header_size(head);
  return header && *header >= 2 && *header <= kSafetensorsLargestHeader &&
         (head[9] == '"' || head[9] == '}');
}

bool is_pickle(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

// Returns whether text has no such byte: NUL, and the control characters without a use in files.
bool is_binary_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x07 || (byte > 0x0D && byte < 0x1B) || (byte > 0x1B && byte < 0x20);
}

// Returns whether more than one byte in a hundred is one that text does not have. A few such bytes
// do not count, unless they are most of the file; the summary of a preparation counts them.
bool has_binary_bytes(std::string_view head) {
  constexpr std::ptrdiff_t kFew = 4;
  const std::ptrdiff_t found = std::count_if(head.begin(), head.end(), is_binary_byte);
  const auto size = static_cast<std::ptrdiff_t>(head.size());
  return 100 * found > size && (found > kFew || 2 * found > size);
}

// Whether a text may begin with these bytes.
bool is_printable(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::optional<Content> binary_content(std::string_view head) {
  if (std::string other = foreign_text(head); !other.empty())
    return Content{is_file_pointer(head) ? Kind::kPointer : Kind::kWide, std::move(other)};
  if (is_arrow_stream(head)) return Content{Kind::kArrow};
  if (is_safetensors(head)) return Content{Kind::kBinary, "model weights (safetensors)"};
  if (head.starts_with(kPdf)) return Content{Kind::kBinary, "a PDF", "extract its text"};
  // A text may begin with the letters of a format: "PARENTS", "GGUF is a file format".
  const bool is_text = std::none_of(head.begin(), head.end(), is_binary_byte);
  if (!is_text && head.starts_with("PAR1")) return Content{Kind::kParquet};
  if (!is_text && head.starts_with("ARROW1")) return Content{Kind::kArrow};
  for (const Magic& magic : kMagics) {
    if (is_text && is_printable(magic.bytes)) continue;
    if (head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes))
      return Content{Kind::kBinary, magic.description, magic.advice};
  }
  if (is_pickle(head)) return Content{Kind::kBinary, "a Python pickle"};
  if (has_binary_bytes(head)) return Content{Kind::kBinary, "binary data"};
  return std::nullopt;
}

constexpr std::string_view kBlanks = " \t\r\n";

// The result of reading a text as JSON.
struct JsonScan {
  JsonScanner::Type type = JsonScanner::Type::kNone;
  JsonScanner::Type field = JsonScanner::Type::kNone;
  std::vector<std::string> keys;
  bool is_json = false;       // as a whole
  bool is_beginning = false;  // nothing is wrong but that it ends too early
};

JsonScan scan_json(std::string_view text, const std::string& field) {
  const std::vector<std::string> path = key_parts(field);
  JsonScanner scanner(text, field, path);
  JsonScan scan;
  try {
    scanner.scan();
    scan.is_json = true;
  } catch (const JsonSyntaxError& error) {
    // An escape or a word that is cut is found wrong at its beginning.
    constexpr size_t kLongestWord = 12;
    scan.is_beginning = error.offset + kLongestWord >= text.size();
  }
  scan.type = scanner.type();
  scan.field = (scanner.field().count > 0 ? scanner.field() : scanner.path()).type;
  scan.keys = scanner.keys();
  return scan;
}

std::string describe_keys(const JsonScan& scan, const std::string& field) {
  constexpr size_t kMostKeys = 12;
  const std::string nearest = nearest_word(field, scan.keys);
  return str("no text in the field ", quote(field), " (text_field)",
             nearest.empty() ? "" : str(", did you mean ", quote(nearest), "?"),
             "; the first object has: ", quoted_list(scan.keys, kMostKeys));
}

bool has_text(const JsonScan& scan) {
  return scan.field == JsonScanner::Type::kString || scan.field == JsonScanner::Type::kNull;
}

// JSON lines, if that is what the head holds.
std::optional<Content> json_lines(std::string_view head, bool is_whole, const std::string& field) {
  std::optional<JsonScan> first;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    const bool is_cut = end == std::string_view::npos && !is_whole;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
    if (line.find_first_not_of(kBlanks) == std::string_view::npos) continue;
    if (is_cut && first) break;
    JsonScan scan = scan_json(line, field);
    if (is_cut) {
      // A line longer than the head: its reader will tell.
      if (line.front() == '{' && scan.is_beginning) return Content{Kind::kJsonLines};
      return std::nullopt;
    }
    if (!scan.is_json || scan.type != JsonScanner::Type::kObject) return std::nullopt;
    // One such line is enough: the reader says what is wrong with a later line.
    if (!first && has_text(scan)) return Content{Kind::kJsonLines};
    if (!first) first = std::move(scan);
  }
  if (!first) return std::nullopt;
  return Content{Kind::kJson, str("JSON with ", describe_keys(*first, field))};
}

// Judges a JSON array by its first element: it should be a string, or an object with text in the
// field. Passes an element that is longer than the head, which its reader will judge.
Content json_array(std::string_view head, const std::string& field) {
  Content other{Kind::kJson, "a JSON array whose first element is no object or string"};
  head.remove_prefix(1);
  const size_t begin = head.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return other;
  head.remove_prefix(begin);
  if (head.front() == '"') return {Kind::kJsonArray};
  if (head.front() != '{') return other;
  // The end of the object is where its JSON ends.
  constexpr int kMostTries = 100;
  size_t end = head.find('}');
  for (int i = 0; i < kMostTries && end != std::string_view::npos; ++i) {
    const JsonScan scan = scan_json(head.substr(0, end + 1), field);
    if (scan.is_json && !has_text(scan))
      return {Kind::kJson, str("a JSON array with ", describe_keys(scan, field))};
    if (scan.is_json) return {Kind::kJsonArray};
    if (!scan.is_beginning)
      return {Kind::kJson, "a JSON array whose first element is no JSON object"};
    end = head.find('}', end + 1);
  }
  return {Kind::kJsonArray};
}

// --- what is taken for token ids ----------------------------------------------------------------

// Two ids may well have the bytes of a short magic. Then more of the format is looked at.
bool is_surely(std::string_view magic, std::string_view bytes) {
  const auto from = [&](size_t at) { return bytes.substr(std::min(at, bytes.size())); };
  if (magic == "\x1F\x8B") return bytes.size() > 3 && bytes[2] == 8 && bytes[3] < 0x20;
  if (magic == "BZh") return from(4).starts_with("\x31\x41\x59\x26\x53\x59");
  if (magic == "\xFF\xD8\xFF") return from(6).starts_with("JFIF") || from(6).starts_with("Exif");
  if (magic == "MZ\x90") return bytes.substr(0, 4) == std::string_view("MZ\x90\0", 4);
  if (magic == "ORC\x0A") return bytes.size() > 4;
  return true;
}

// A pickle ends with a full stop, and its first operation begins a frame or an object.
bool is_surely_pickle(std::string_view bytes) {
  if (!is_pickle(bytes) || !bytes.ends_with('.')) return false;
  return bytes[1] >= 4 ? bytes[2] == '\x95'
                       : std::string_view("](}cXKIGN").find(bytes[2]) != std::string_view::npos;
}

// A table of offsets that begins with its number of entries, as the shards of MosaicML's streaming
// and the chunks of litdata have it: the last offset is the size of the file.
std::string offset_table(std::string_view bytes) {
  if (bytes.size() < 12) return {};
  const uint64_t count = value_at<uint32_t>(bytes.data());
  const uint64_t table = 4 + 4 * (count + 1);
  if (count == 0 || table >= bytes.size()) return {};
  auto previous = value_at<uint32_t>(bytes.data() + 4);
  if (previous < table) return {};
  const bool has_columns = previous > table && bytes[table] == '{';
  if (previous > table && !has_columns) return {};
  for (uint64_t i = 1; i <= count; ++i) {
    const auto offset = value_at<uint32_t>(bytes.data() + 4 + 4 * i);
    if (offset < previous) return {};
    previous = offset;
  }
  if (previous != bytes.size()) return {};
  return has_columns ? "a shard of MosaicML's streaming (MDS)" : "a chunk of litdata";
}

// A record of TensorFlow: its size, and the masked CRC-32C of the bytes of the size.
bool is_tfrecord(std::string_view bytes) {
  if (bytes.size() < 16 || value_at<uint64_t>(bytes.data()) > bytes.size() - 16) return false;
  const uint32_t crc = crc32c(0, bytes.data(), 8);
  return value_at<uint32_t>(bytes.data() + 8) == ((crc >> 15U | crc << 17U) + 0xA282EAD8U);
}

// Whether the file is text in UTF-16 with its mark: most characters are below U+0100.
bool is_marked_utf16(std::string_view head) {
  const bool is_little = head.starts_with("\xFF\xFE");
  if (!is_little && !head.starts_with("\xFE\xFF")) return false;
  size_t zeros = 0;
  for (size_t i = is_little ? 3 : 2; i < head.size(); i += 2) zeros += head[i] == '\0' ? 1U : 0U;
  return 4 * zeros > head.size();
}

}  // namespace

std::string other_than_ids(std::string_view bytes) {
  constexpr size_t kFewest = 64;  // bytes that cannot all be letters by chance
  const std::string_view head = bytes.substr(0, kHeadBytes);
  if (is_file_pointer(head)) return foreign_text(head);
  for (const Magic& magic : kMagics) {
    if (head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes) &&
        is_surely(magic.bytes, bytes))
      return Content{Kind::kBinary, magic.description, magic.advice}.described();
  }
  if (head.starts_with("PAR1") && bytes.ends_with("PAR1")) return "a Parquet file";
  if (head.starts_with("ARROW1")) return "an Arrow file";
  if (head.starts_with(kPdf)) return "a PDF";
  if (is_arrow_stream(head)) return "a stream of Arrow";
  if (is_safetensors(head)) return "model weights (safetensors)";
  if (is_surely_pickle(bytes)) return "a Python pickle";
  if (is_marked_utf16(head)) return "UTF-16 text";
  if (std::string table = offset_table(bytes); !table.empty()) return table;
  if (is_tfrecord(bytes)) return "a TFRecord file of TensorFlow";
  if (bytes.size() >= kFewest && std::none_of(head.begin(), head.end(), is_binary_byte)) {
    const std::string answer = foreign_data(head);
    return answer.empty() ? "text" : answer;
  }
  return {};
}

Content content_of(std::string_view head, bool is_whole, bool is_named_json,
                   const std::string& text_field) {
  if (std::optional<Content> content = binary_content(head)) return *std::move(content);
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  const size_t begin = head.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  head.remove_prefix(begin);
  const bool is_object = head.front() == '{';
  if (is_object || head.front() == '[') {
    if (is_object) {
      if (std::optional<Content> lines = json_lines(head, is_whole, text_field))
        return *std::move(lines);
    }
    const JsonScan scan = scan_json(head, text_field);
    const bool is_json = scan.is_json || (!is_whole && scan.is_beginning);
    // The reader says what is wrong with a later element.
    if (!is_object && (is_json || is_named_json)) return json_array(head, text_field);
    if (is_json) return {Kind::kJson, "a JSON object over several lines"};
  }
  if (is_named_json) return {Kind::kJson, "named .json, but neither JSON lines nor one JSON value"};
  return {};
}

Content look_at(const fs::path& path, const std::string& text_field) {
  const std::unique_ptr<ByteStream> bytes = open_bytes(path);
  std::string head;
  const auto read_to = [&](size_t size) {
    const size_t before = head.size();
    head.resize(size);
    head.resize(before + read_fully(*bytes, head.data() + before, size - before));
    return head.size() < size;
  };
  bool is_whole = read_to(kHeadBytes);
  const size_t begin = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool may_be_json = begin != std::string::npos && (head[begin] == '{' || head[begin] == '[');
  if (!is_whole && may_be_json) is_whole = read_to(kJsonHeadBytes);
  const fs::path name = without_compression(path.filename());
  Content content = content_of(head, is_whole, name.extension() == ".json", text_field);
  const bool is_table = content.kind == Kind::kParquet || content.kind == Kind::kArrow;
  if (is_table && name != path.filename())
    return {Kind::kBinary, "a Parquet or Arrow file compressed as a whole", "unpack it"};
  return content;
}

}  // namespace lmtrain
