// list_source_files and resolve_format of documents.h.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "corpus/documents.h"
#include "corpus/glob.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

std::string explain_missing(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return "the folder holds no files (hidden ones are left out)";
  if (fs::exists(status)) return "it is neither a file nor a folder";
  if (error == std::errc::permission_denied) return "permission denied; check the folders above it";
  if (has_wildcard(path)) {
    return "the pattern matches no file; * stays within a folder, ** crosses folders, hidden files "
           "need a spelled dot, "
           "and a folder's files are taken by naming it without wildcards or by adding /**";
  }
  return str("no such file or folder; check the spelling (relative paths begin at ",
             fs::current_path().string(), ")");
}

SourceFile examine(const fs::path& path, double weight, size_t source) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw Error(ErrorKind::kIo, str("cannot examine ", path.string(), ": ", std::strerror(errno)));
  }
  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  return {path, static_cast<uint64_t>(info.st_size),
          info.st_mtim.tv_sec * kNanosecondsPerSecond + info.st_mtim.tv_nsec, weight,
          static_cast<int32_t>(source)};
}

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::vector<SourceFile> list_source_files(const std::vector<DataSourceConfig>& sources,
                                          const std::string& pointer) {
  std::map<std::string, size_t> taken;  // in byte order of absolute path: its source
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string place = pointer.empty() ? "" : str(pointer, "/", i, ": ");
    const std::string path = expand_variables(sources[i].path, place);
    const std::vector<fs::path> found = find_files(path);
    if (found.empty())
      throw Error(ErrorKind::kUsage, str(place, "\"", path, "\": ", explain_missing(path)));
    for (const fs::path& file : found) {
      taken.emplace(fs::absolute(file).lexically_normal().native(), i);
    }
  }
  std::vector<SourceFile> files;
  files.reserve(taken.size());
  for (const auto& [path, source] : taken)
    files.push_back(examine(path, sources[source].weight, source));
  return files;
}

std::string resolve_format(const fs::path& path, const std::string& format) {
  constexpr std::array<std::string_view, 3> kReadable = {"text", "lines", "jsonl"};
  constexpr std::array<std::string_view, 6> kCompressed = {".gz", ".bz2", ".zst",
                                                           ".xz", ".lz4", ".zip"};
  constexpr std::array<std::string_view, 2> kTables = {".parquet", ".arrow"};
  if (format != "auto" && !contains(kReadable, format)) {
    throw Error(ErrorKind::kConfig,
                str("/data/format: \"", format,
                    "\" is not read by this version; convert the data to "
                    "text or JSON lines and use \"text\", \"lines\", \"jsonl\" or \"auto\""));
  }
  const std::string extension = path.extension().native();
  if (contains(kCompressed, extension)) {
    throw Error(ErrorKind::kConfig, str(path.string(), ": compressed files (", extension,
                                        ") are not read by this version; decompress it first"));
  }
  if (format != "auto") return format;
  if (contains(kTables, extension)) {
    throw Error(
        ErrorKind::kConfig,
        str(path.string(), ": ", extension,
            " files are not read by this version; convert it to JSON lines (.jsonl) first"));
  }
  return extension == ".jsonl" || extension == ".ndjson" ? "jsonl" : "text";
}

}  // namespace lmtrain
