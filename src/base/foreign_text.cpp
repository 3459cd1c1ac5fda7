#include "base/foreign_text.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace lmtrain {
namespace {

struct MagicBytes {
  std::string_view bytes;
  const char* description;
};

template <size_t kSize>
constexpr std::string_view bytes_of(const char (&literal)[kSize]) {
  return {literal, kSize - 1};
}

constexpr const char* kLfs = "a pointer of git-lfs and not the file itself: run git lfs pull";
constexpr const char* kAnnex =
    "a pointer of git-annex and not the file itself: run git annex get on it";

constexpr std::array kPointers = {
    MagicBytes{"version https://git-lfs.github.com/spec/", kLfs},
    MagicBytes{"version https://hawser.github.com/spec/", kLfs},
    MagicBytes{"version http://git-media.io/v/", kLfs},
    MagicBytes{"/annex/objects/", kAnnex},
    MagicBytes{"# xet version ",
               "a pointer of Xet and not the file itself: get it with hf download, or git xet"},
    MagicBytes{"outs:\n- md5:", "a pointer of DVC and not the file itself: run dvc pull"},
};

constexpr const char* kUtf16 =
    "UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE";
// Without a byte order mark iconv takes UTF-16 for little-endian.
constexpr const char* kUtf16Be =
    "UTF-16BE text: convert it with iconv -f UTF-16BE -t UTF-8 FILE > NEW_FILE";
constexpr const char* kUtf16Le =
    "UTF-16LE text: convert it with iconv -f UTF-16LE -t UTF-8 FILE > NEW_FILE";
constexpr const char* kUtf32 =
    "UTF-32 text: convert it with iconv -f UTF-32 -t UTF-8 FILE > NEW_FILE";

constexpr std::array kOrderMarks = {
    MagicBytes{bytes_of("\xFF\xFE\0\0"), kUtf32},
    MagicBytes{bytes_of("\0\0\xFE\xFF"), kUtf32},
    MagicBytes{bytes_of("\xFF\xFE"), kUtf16},
    MagicBytes{bytes_of("\xFE\xFF"), kUtf16},
};

constexpr const char* kPage =
    "a web page: the server sent it in place of the file; get the file anew";
constexpr const char* kRefusal =
    "the answer of a server that did not send the file; look at what it says, and get the file "
    "anew";

// In lower case.
constexpr std::array kAnswers = {
    MagicBytes{"<!doctype html", kPage},
    MagicBytes{"<html", kPage},
    MagicBytes{"<head", kPage},
    MagicBytes{"<?xml", kRefusal},
    MagicBytes{"<error>", kRefusal},
    MagicBytes{"entry not found", kRefusal},
    MagicBytes{"repository not found", kRefusal},
    MagicBytes{"invalid username or password", kRefusal},
    MagicBytes{"invalid credentials", kRefusal},
    MagicBytes{"unauthorized", kRefusal},
    MagicBytes{"forbidden", kRefusal},
    MagicBytes{"access to model ", kRefusal},
    MagicBytes{"access to dataset ", kRefusal},
    MagicBytes{"not found", kRefusal},
    MagicBytes{"404", kRefusal},
    MagicBytes{"{\"error\":", kRefusal},
};

template <size_t kCount>
std::string found_in(const std::array<MagicBytes, kCount>& table, std::string_view head) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const MagicBytes& beginning) {
    return head.starts_with(beginning.bytes);
  });
  return found == table.end() ? "" : found->description;
}

// Text in UTF-16 without a mark: every second byte of what ASCII is in UTF-8 is 0.
const char* unmarked_utf16(std::string_view head) {
  constexpr size_t kFewest = 8;
  if (head.size() < kFewest) return "";
  head = head.substr(0, head.size() / 2 * 2);
  for (const size_t zero : {0, 1}) {
    bool is_wide = true;
    for (size_t i = 0; i < head.size() && is_wide; i += 2) {
      const auto letter = static_cast<unsigned char>(head[i + 1 - zero]);
      const bool is_letter = (letter >= ' ' && letter <= '~') || (letter >= '\t' && letter <= '\r');
      is_wide = head[i + zero] == '\0' && is_letter;
    }
    if (is_wide) return zero == 0 ? kUtf16Be : kUtf16Le;
  }
  return "";
}

}  // namespace

bool is_file_pointer(std::string_view head) {
  // A large file may begin in the same way; a pointer is small.
  return head.size() < kForeignHeadBytes && !found_in(kPointers, head).empty();
}

std::string foreign_text(std::string_view head) {
  if (is_file_pointer(head)) return found_in(kPointers, head);
  head = head.substr(0, kForeignHeadBytes);
  return found_in(kOrderMarks, head);
}

std::string foreign_data(std::string_view head) {
  if (std::string text = foreign_text(head); !text.empty()) return text;
  if (std::string text = unmarked_utf16(head.substr(0, kForeignHeadBytes)); !text.empty())
    return text;
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  return found_in(kAnswers, lower_case(head.substr(0, kForeignHeadBytes)));
}

}  // namespace lmtrain
