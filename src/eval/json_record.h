// A JsonRecord is one line of a file of JSON lines that a person wrote: an object with named
// fields. Every error is an Error(kData) that begins with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

class JsonRecord {
 public:
  // `where` is "file:line". Throws Error(kData) when `line` is blank, or is not one JSON object.
  JsonRecord(std::string_view line, std::string where);

  const std::string& where() const { return where_; }
  bool has(const char* field) const { return object_.contains(field); }
  // These return a field, and throw Error(kData) if it is missing or has another type. integer()
  // takes an int64_t, 3 but not 3.0; integers() takes a list of such integers of at least 0.
  std::string text(const char* field) const;
  std::vector<std::string> texts(const char* field) const;
  int64_t integer(const char* field) const;
  std::vector<int64_t> integers(const char* field) const;
  // Throws Error(kData) with file and line before `what`.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const nlohmann::json& field(const char* name) const;

  std::string where_;
  nlohmann::json object_;
};

// Throws Error(kUsage) for a path that does not exist or is a folder.
void require_record_file(const std::filesystem::path& path);
// Reads a whole file or pipe, and calls `visit` for each line; where() begins with `path` as it is
// given. Throws the errors of require_record_file(), JsonRecord and `visit`, Error(kIo), and:
//   Error(kData)   there are more than 4 GiB
//   StopRequested  a signal comes while it waits for a pipe (base/stop.h)
void for_each_record(const std::filesystem::path& path,
                     const std::function<void(const JsonRecord& record)>& visit);

}  // namespace lmtrain
