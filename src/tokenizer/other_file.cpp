#include "tokenizer/other_file.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/foreign_text.h"
#include "base/utf8.h"
#include "formats/safetensors.h"

namespace lmtrain {
namespace {

bool is_text(std::string_view bytes) {
  const auto control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f';
  };
  return std::none_of(bytes.begin(), bytes.end(), control) && is_utf8(bytes);
}

std::string kind_of_json(std::string_view bytes) {
  return nlohmann::json::accept(bytes) ? "JSON" : "text";
}

// tiktoken's, as Llama 3 has it under the name tokenizer.model: "IQ== 0" on the first line.
bool is_tiktoken(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos) return false;
  const auto in = [](std::string_view part, std::string_view allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == std::string_view::npos;
  };
  return in(line.substr(0, space),
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") &&
         in(line.substr(space + 1), "0123456789\r");
}

// The whole header must be there.
bool is_safetensors(std::string_view bytes) {
  const std::optional<uint64_t> header = safetensors_header_size(bytes);
  return header && *header <= bytes.size() - kSafetensorsLengthBytes;
}

}  // namespace

std::string other_than_sentencepiece(std::string_view bytes) {
  if (bytes.empty()) return "empty";
  if (std::string other = foreign_data(bytes.substr(0, kForeignHeadBytes)); !other.empty())
    return other;
  if (is_safetensors(bytes)) return "a safetensors file, which holds weights";
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[') &&
      is_text(bytes)) {
    return kind_of_json(bytes);
  }
  if (bytes.starts_with("PK\x03\x04")) return "a zip archive or a PyTorch file";
  if (bytes.starts_with("\x1F\x8B")) return "compressed with gzip";
  if (!is_text(bytes)) return "";
  return is_tiktoken(bytes) ? "a tiktoken vocabulary (that of Llama 3), which is not read yet"
                            : "text";
}

}  // namespace lmtrain
