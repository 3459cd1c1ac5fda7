// Tells by the first bytes of a file what it holds, where its name does not say it. Reads some
// KiB, decompressed (byte_stream.h), and up to 256 KiB where they look like JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lmtrain {

struct Content {
  enum class Kind : uint8_t {
    kText,       // prose, source code, anything that no other kind describes; an empty file
    kJsonLines,  // a JSON object a line, the first with the field that holds the text
    kParquet,
    kArrow,
    kJson,   // JSON of another form, or none under a name that ends in .json
    kBinary  // no text at all
  };
  Kind kind = Kind::kText;
  std::string description{};  // of kJson and kBinary, for a message: "a JSON array"
};

// `text_field` as in json_line.h. Error(kIo) and Error(kData) of byte_stream.h.
Content look_at(const std::filesystem::path& path, const std::string& text_field);

// The same for bytes at hand. `is_whole`: they are the whole file. `is_named_json`: its name ends
// in .json, so that text is a surprise.
Content content_of(std::string_view head, bool is_whole, bool is_named_json,
                   const std::string& text_field);

}  // namespace lmtrain
