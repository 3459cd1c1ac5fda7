// These functions tell from the first bytes of a file what it holds, where its name does not say
// it. They read 8 KiB, decompressed (byte_stream.h), and up to 256 KiB of a file that looks like
// JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lmtrain {

struct Content {
  enum class Kind : uint8_t {
    kText,       // prose, source code, an empty file, and whatever is of no other kind
    kJsonLines,  // one JSON object per line, the first with the field that holds the text
    kJsonArray,  // an array of such objects, or of strings
    kParquet,
    kArrow,
    kJson,     // other JSON; or a file named .json that is no JSON
    kWide,     // text in UTF-16 or UTF-32 (foreign_text.h)
    kPointer,  // a pointer that a tool left for the file (foreign_text.h)
    kBinary    // no text at all
  };
  Kind kind = Kind::kText;
  // For kJson and the kinds after it, in words: "a tar archive". For kWide and kPointer it ends
  // with what to do (foreign_text.h).
  std::string description{};
  std::string advice{};  // of kBinary, what to do to train on the file: "unpack it"; often empty

  // Returns the description, and the advice after a semicolon.
  std::string described() const {
    return advice.empty() ? description : description + "; " + advice;
  }
};

// Returns what the file at `path` holds, decompressed. `text_field` is the field of json_line.h.
// Throws the errors of open_bytes() and of reading (byte_stream.h).
Content look_at(const std::filesystem::path& path, const std::string& text_field);

// Does the same for the first bytes `head` of a file. `is_whole`: they are the whole file.
// `is_named_json`: its name ends in .json, so that text in it is kJson.
Content content_of(std::string_view head, bool is_whole, bool is_named_json,
                   const std::string& text_field);

// Returns what a file is where its content `bytes`, all of it, is surely no token ids: text, a
// table, an archive, a pointer (foreign_text.h), ids in a layout that is not read. Else returns "".
std::string other_than_ids(std::string_view bytes);

}  // namespace lmtrain
