#include "eval/prompt_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/strict_json.h"
#include "text/content.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

struct PromptLine {
  std::string_view text;
  std::string where;

  bool is_blank() const { return text.find_first_not_of(" \t") == std::string_view::npos; }
};

std::vector<PromptLine> lines_of(std::string_view bytes, const std::string& origin) {
  std::vector<PromptLine> lines;
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    std::string_view text = bytes.substr(0, end);
    if (text.ends_with('\r')) text.remove_suffix(1);
    lines.push_back({text, str(origin, ":", lines.size() + 1)});
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  return lines;
}

// Returns the prompt of a line of JSON lines. Throws Error(kData) if the line has none.
std::string prompt_in(const PromptLine& line) {
  const std::string advice = R"(a line of a file of JSON lines is {"prompt": "..."})";
  const nlohmann::json value = parse_strict_json(line.text, {ErrorKind::kData, line.where, advice});
  const auto fail = [&](const char* what) {
    throw Error(ErrorKind::kData, str(line.where, ": ", what, "; ", advice));
  };
  if (!value.is_object()) fail("is no JSON object");
  if (!value.contains("prompt")) fail("has no \"prompt\"");
  if (!value["prompt"].is_string()) fail("has a \"prompt\" that is no string");
  return value["prompt"];
}

bool has_prompt(const PromptLine& line) {
  try {
    prompt_in(line);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Throws Error(kData) for bytes that are no text in UTF-8: each line of them would be a prompt.
void require_text(std::string_view bytes, const std::string& origin) {
  constexpr size_t kHeadBytes = 8192;
  const Content content = content_of(bytes.substr(0, kHeadBytes), bytes.size() <= kHeadBytes,
                                     /*is_named_json=*/false, "prompt");
  using Kind = Content::Kind;
  if (content.kind < Kind::kParquet || content.kind == Kind::kJson) return;
  if (content.kind == Kind::kWide || content.kind == Kind::kPointer)
    throw Error(ErrorKind::kData, str(origin, ": is ", content.description));
  const std::string& what = content.description;
  throw Error(ErrorKind::kData, str(origin, ": is ", what.empty() ? "a table" : what,
                                    "; give a file of text with a prompt a line, or JSON lines"));
}

bool are_json(const std::vector<PromptLine>& lines, const std::string& origin) {
  const std::string extension = fs::path(origin).extension().string();
  if (extension == ".jsonl" || extension == ".ndjson") return true;
  const auto first = std::find_if(lines.begin(), lines.end(),
                                  [](const PromptLine& line) { return !line.is_blank(); });
  return first != lines.end() && has_prompt(*first);
}

}  // namespace

std::vector<Prompt> parse_prompts(std::string_view bytes, const std::string& origin) {
  require_text(bytes, origin);
  const std::vector<PromptLine> lines = lines_of(bytes, origin);
  const bool json = are_json(lines, origin);
  std::vector<Prompt> prompts;
  for (const PromptLine& line : lines) {
    if (!json) {
      prompts.push_back({std::string(line.text), line.where});
    } else if (!line.is_blank()) {
      prompts.push_back({prompt_in(line), line.where});
    }
  }
  if (prompts.empty()) {
    throw Error(ErrorKind::kData,
                str(origin, ": has no prompt; give one a line, or JSON lines with \"prompt\""));
  }
  return prompts;
}

std::vector<Prompt> read_prompts(const fs::path& path) {
  const FileKind kind = examine(path).kind;
  if (kind == FileKind::kMissing || kind == FileKind::kFolder) {
    throw Error(ErrorKind::kUsage,
                str(path.string(), kind == FileKind::kFolder ? ": is a folder" : ": does not exist",
                    "; give --prompts a file with a prompt a line"));
  }
  constexpr uint64_t kLargest = uint64_t{1} << 30;
  return parse_prompts(read_file_or_pipe(path, kLargest), path.string());
}

}  // namespace lmtrain
