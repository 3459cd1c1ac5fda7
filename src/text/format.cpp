#include "text/format.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/log.h"
#include "base/read_file.h"
#include "base/stop.h"
#include "base/text.h"
#include "text/byte_stream.h"
#include "text/content.h"
#include "text/sample_shard.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The reason why a file is not read as it is. JSON and tables may lie in a folder of source code.
struct Oddity {
  enum class Kind : uint8_t { kRefused, kPointer, kWide, kBinary, kJson, kTable };
  Kind kind = Kind::kRefused;
  std::string description{};
  bool may_be_text() const { return kind == Kind::kJson || kind == Kind::kTable; }
};

// Finds a pointer in place of a file whose name gives the format. A pointer is small.
std::optional<Oddity> pointer_named_as(const SourceFile& file) {
  if (file.size == 0 || file.size >= kForeignHeadBytes) return std::nullopt;
  const std::string head = read_file(file.path);
  if (!is_file_pointer(head)) return std::nullopt;
  return Oddity{Oddity::Kind::kPointer, foreign_text(head)};
}

std::string describe_columns(const std::vector<std::string>& columns, const std::string& field) {
  constexpr size_t kMostColumns = 12;
  const std::string nearest = nearest_word(field, columns);
  return str("a table without a column ", quote(field), " (text_field)",
             nearest.empty() ? "" : str(", did you mean ", quote(nearest), "?"),
             "; its first line has: ", quoted_list(columns, kMostColumns));
}

// Sets the file's format, or tells why not.
std::optional<Oddity> decide(SourceFile& file, DataFormat format, const std::string& text_field) {
  try {
    file.format = format_by_name(file.path, format);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
    return Oddity{Oddity::Kind::kRefused, error.what()};
  }
  if (!file.format.empty()) return pointer_named_as(file);
  if (file.path.filename() == kShardIndexName && read_shard_index(file.path))
    return Oddity{Oddity::Kind::kRefused,
                  str(shown(file.path), ": is the index of the shards beside it; name its folder")};
  const fs::path extension = without_compression(file.path.filename()).extension();
  const Content content = look_at(file.path, text_field);
  switch (content.kind) {
    case Content::Kind::kJsonLines:
      file.format = name_of(DataFormat::kJsonl);
      return std::nullopt;
    case Content::Kind::kJsonArray:
      file.format = name_of(DataFormat::kJson);
      return std::nullopt;
    case Content::Kind::kParquet:
      file.format = name_of(DataFormat::kParquet);
      return std::nullopt;
    case Content::Kind::kArrow:
      file.format = name_of(DataFormat::kArrow);
      return std::nullopt;
    case Content::Kind::kJson:
      return Oddity{Oddity::Kind::kJson, content.description};
    case Content::Kind::kPointer:
      return Oddity{Oddity::Kind::kPointer, content.description};
    case Content::Kind::kWide:
      return Oddity{Oddity::Kind::kWide, content.description};
    case Content::Kind::kBinary:
      return Oddity{Oddity::Kind::kBinary, content.described()};
    case Content::Kind::kText:
      break;
  }
  file.format = name_of(DataFormat::kText);
  if (file.size == 0 || (extension != ".csv" && extension != ".tsv")) return std::nullopt;
  const bool has_tabs = extension == ".tsv";
  const std::vector<std::string> columns = csv_columns(file.path, has_tabs ? '\t' : ',');
  if (std::find(columns.begin(), columns.end(), text_field) == columns.end())
    return Oddity{Oddity::Kind::kTable, describe_columns(columns, text_field)};
  file.format = name_of(has_tabs ? DataFormat::kTsv : DataFormat::kCsv);
  return std::nullopt;
}

// Returns whether a file that is read as data may also lie among text and be read as text.
bool may_be_among_text(const SourceFile& file) {
  return file.format == name_of(DataFormat::kJson) || file.format == name_of(DataFormat::kCsv) ||
         file.format == name_of(DataFormat::kTsv);
}

// Collects the pointers among all files of the list, by the tool that left them.
class Pointers {
 public:
  void add(const SourceFile& file, const std::string& description) {
    names_[description].push_back(shown(file.path));
    ++num_pointers_;
  }

  // Throws Error(kData) that names the pointers, if there are any.
  void refuse(const std::string& prefix, size_t num_files) const {
    if (names_.empty()) return;
    constexpr size_t kMostNames = 5;
    std::vector<std::string> parts;
    for (const auto& [description, names] : names_) {
      std::vector<std::string> first = names;
      first.resize(std::min(kMostNames, names.size()));
      parts.push_back(
          str(join(first, ", "),
              names.size() > kMostNames ? str(" and ", names.size() - kMostNames, " more") : "",
              names.size() > 1 ? ": each is " : ": is ", description));
    }
    throw Error(ErrorKind::kData, str(prefix, counted(num_pointers_, "file"), " of ", num_files,
                                      " not there yet: ", join(parts, "; ")));
  }

 private:
  std::map<std::string, std::vector<std::string>> names_;
  int64_t num_pointers_ = 0;
};

// The files of one entry of the list, and the oddities of some.
class Entry {
 public:
  void add(SourceFile& file, std::optional<Oddity> oddity) {
    ++num_files_;
    bytes_ += file.size;
    if (oddity) {
      odd_bytes_ += oddity->may_be_text() ? file.size : 0;
      odd_.push_back({&file, *std::move(oddity)});
    } else if (may_be_among_text(file)) {
      odd_bytes_ += file.size;
      soft_.push_back(&file);
    } else {
      has_data_ = has_data_ || file.format != name_of(DataFormat::kText);
    }
  }

  // Reads odd files as text where they may be text and lie among other text; else throws. With
  // `is_open` the format is not given.
  void settle(const std::string& prefix, const std::string& setting, bool is_open) const {
    constexpr uint64_t kFewest = 10;
    const bool is_among_text = is_open && !has_data_ && kFewest * odd_bytes_ < bytes_;
    if (is_among_text) {
      for (SourceFile* file : soft_) file->format = name_of(DataFormat::kText);
    }
    if (is_among_text && !soft_.empty() && odd_.empty()) {
      log_note(str(prefix, counted(static_cast<int64_t>(soft_.size()), "file"), " of ", num_files_,
                   " read as text though they look like data: ", shown(soft_.front()->path),
                   soft_.size() > 1 ? ", ..." : ""));
    }
    if (odd_.empty()) return;
    std::vector<Odd> refused;
    std::vector<Odd> taken;
    for (const Odd& odd : odd_)
      (is_among_text && odd.what.may_be_text() ? taken : refused).push_back(odd);
    if (!refused.empty()) {
      throw Error(
          ErrorKind::kConfig,
          str(prefix, counted(static_cast<int64_t>(refused.size()), "file"), " of ", num_files_,
              " cannot be read as text: ", list(refused), "; ", advice(refused, setting)));
    }
    for (const Odd& odd : taken) odd.file->format = name_of(DataFormat::kText);
    log_note(str(prefix, counted(static_cast<int64_t>(taken.size()), "file"), " of ", num_files_,
                 " read as text though they look like data: ", list(taken)));
  }

 private:
  struct Odd {
    SourceFile* file;
    Oddity what;
  };

  static std::string list(const std::vector<Odd>& files) {
    constexpr size_t kMostNames = 5;
    std::vector<std::string> listed;
    for (size_t i = 0; i < std::min(kMostNames, files.size()); ++i) {
      const std::string& what = files[i].what.description;
      listed.push_back(files[i].what.kind == Oddity::Kind::kRefused
                           ? what
                           : str(shown(files[i].file->path), " (", what, ")"));
    }
    std::string text = join(listed, ", ");
    if (files.size() > kMostNames) text += str(" and ", files.size() - kMostNames, " more");
    return text;
  }

  std::string advice(const std::vector<Odd>& refused, const std::string& setting) const {
    const auto has = [&](Oddity::Kind kind) {
      return std::any_of(refused.begin(), refused.end(),
                         [&](const Odd& odd) { return odd.what.kind == kind; });
    };
    std::vector<std::string> advice;
    if (has(Oddity::Kind::kJson))
      advice.emplace_back(
          "write JSON as one object a line, or as an array of objects, with the text in one field, "
          "and name the field in data.text_field where it is not \"text\"");
    if (has(Oddity::Kind::kTable))
      advice.emplace_back(
          "name the column with the text in data.text_field, and the columns of a table in its "
          "first line");
    if (num_files_ > refused.size())
      advice.emplace_back("leave files out by a pattern for those to read, such as DIR/**/*.txt");
    if (has(Oddity::Kind::kWide)) advice.emplace_back("text is read in UTF-8 alone");
    if (has(Oddity::Kind::kJson) || has(Oddity::Kind::kTable) || has(Oddity::Kind::kBinary))
      advice.push_back(str("or say the format if it is text after all: ", setting,
                           " text (a file is a document) or lines"));
    // The ids of letters, two bytes each, look like UTF-16.
    const bool may_be_ids = std::any_of(refused.begin(), refused.end(), [](const Odd& odd) {
      return odd.what.kind == Oddity::Kind::kWide && odd.file->path.extension() == ".bin";
    });
    // A command that has --format reads text alone.
    if ((has(Oddity::Kind::kBinary) || may_be_ids) && setting == "data.format")
      advice.push_back(str(setting, " tokens, if these are token files (nanoGPT's .bin, say)"));
    if (advice.empty()) advice.emplace_back("give other files");
    return join(advice, "; ");
  }

  size_t num_files_ = 0;
  uint64_t bytes_ = 0;
  uint64_t odd_bytes_ = 0;
  bool has_data_ = false;  // in another format than text
  std::vector<Odd> odd_;
  std::vector<SourceFile*> soft_;  // data, unless they lie among text
};

}  // namespace

std::string format_by_name(const fs::path& path, DataFormat format) {
  if (format == DataFormat::kTokens) {
    throw Error(ErrorKind::kConfig,
                str(shown(path), ": the format \"tokens\" holds ids, and text is needed here"));
  }
  const bool is_compressed = compression_of(path) != Compression::kNone;
  DataFormat decided = format;
  if (format == DataFormat::kAuto) {
    const fs::path extension = without_compression(path.filename()).extension();
    if (extension == ".jsonl" || extension == ".ndjson") {
      decided = DataFormat::kJsonl;
    } else if (extension == ".parquet") {
      decided = DataFormat::kParquet;
    } else if (extension == ".arrow" || extension == ".feather") {
      decided = DataFormat::kArrow;
    } else if (extension == ".mds") {
      decided = DataFormat::kMds;
    } else {
      return {};
    }
  }
  if (is_compressed && (decided == DataFormat::kParquet || decided == DataFormat::kArrow)) {
    throw Error(
        ErrorKind::kConfig,
        str(shown(path), ": a ", name_of(decided),
            " file is not read when it is compressed as a whole (it is inside): unpack it"));
  }
  return name_of(decided);
}

void decide_formats(std::vector<SourceFile>& files, DataFormat format,
                    const std::string& text_field, const std::string& pointer,
                    const std::vector<DataSourceConfig>& sources) {
  std::map<int32_t, Entry> entries;
  Pointers pointers;
  for (SourceFile& file : files) {
    throw_if_stopped();
    std::optional<Oddity> oddity = decide(file, format, text_field);
    if (oddity && oddity->kind == Oddity::Kind::kPointer) pointers.add(file, oddity->description);
    entries[file.source].add(file, std::move(oddity));
  }
  pointers.refuse(pointer.empty() ? "--data: " : str(pointer, ": "), files.size());
  for (const auto& [source, entry] : entries) {
    entry.settle(pointer.empty()
                     ? "--data: "
                     : entry_pointer(pointer, sources, static_cast<size_t>(source)) + ": ",
                 pointer.empty() ? "--format" : "data.format", format == DataFormat::kAuto);
  }
}

std::string describe_formats(const FormatCounts& counts) {
  std::vector<std::string> parts;
  for (const auto& [format, count] : counts) {
    parts.push_back(str(counted(count.files, "file"), " as ", format, " (",
                        counted(count.documents, "document"), ")"));
  }
  return join(parts, ", ");
}

}  // namespace lmtrain
