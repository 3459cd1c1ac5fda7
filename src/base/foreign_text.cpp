#include "base/foreign_text.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/text.h"

namespace lmtrain {
namespace {

struct MagicBytes {
  std::string_view bytes;
  const char* description;
};

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
    MagicBytes{literal_bytes("\xFF\xFE\0\0"), kUtf32},
    MagicBytes{literal_bytes("\0\0\xFE\xFF"), kUtf32},
    MagicBytes{literal_bytes("\xFF\xFE"), kUtf16},
    MagicBytes{literal_bytes("\xFE\xFF"), kUtf16},
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

// The code units of a text in UTF-16, each with its high byte at `high`, 0 or 1.
class WideUnits {
 public:
  WideUnits(std::string_view bytes, size_t high) : bytes_(bytes), high_(high) {}
  size_t size() const { return bytes_.size() / 2; }
  unsigned operator[](size_t i) const {
    return 256 * byte(2 * i + high_) + byte(2 * i + 1 - high_);
  }

 private:
  unsigned byte(size_t offset) const { return static_cast<unsigned char>(bytes_[offset]); }
  std::string_view bytes_;
  size_t high_;
};

bool is_wide_blank(unsigned unit) { return unit == ' ' || (unit >= '\t' && unit <= '\r'); }

// Returns whether the text is ASCII, or is of one script: it has blanks, and at most two different
// high bytes beside those of ASCII, Latin-1 and punctuation. Token ids have many high bytes.
bool is_wide_text(const WideUnits& units) {
  constexpr size_t kFewest = 4, kFewestOfScript = 16, kMostHigh = 2, kBlankOneOf = 20;
  constexpr unsigned kPunctuation = 0x20;
  std::array<unsigned, kMostHigh> highs{};
  size_t num_highs = 0, num_blanks = 0;
  bool is_ascii = true;
  const auto is_known = [&](unsigned high) {
    return std::count(highs.begin(), highs.end(), high) > 0;
  };
  for (size_t i = 0; i < units.size(); ++i) {
    const unsigned unit = units[i];
    const bool is_control = (unit < ' ' && !is_wide_blank(unit)) || (unit >= 0x7F && unit < 0xA0);
    if (is_control || unit >= 0xFFFE) return false;
    num_blanks += is_wide_blank(unit) ? 1U : 0U;
    is_ascii = is_ascii && unit < 0x7F;
    const unsigned high = unit / 256;
    const bool is_surrogate = high >= 0xD8 && high < 0xE0;
    if (high == 0 || high == kPunctuation || is_surrogate || is_known(high)) continue;
    if (num_highs == kMostHigh) return false;
    highs[num_highs++] = high;
  }
  if (units.size() < kFewest) return false;
  return is_ascii || (units.size() >= kFewestOfScript && kBlankOneOf * num_blanks >= units.size());
}

// Text in UTF-16 without a mark.
const char* unmarked_utf16(std::string_view head) {
  if (is_wide_text({head, 0})) return kUtf16Be;
  return is_wide_text({head, 1}) ? kUtf16Le : "";
}

}  // namespace

bool is_file_pointer(std::string_view head) {
  // A large file may begin in the same way; a pointer is small.
  return head.size() < kForeignHeadBytes && !found_in(kPointers, head).empty();
}

std::string foreign_text(std::string_view head) {
  if (is_file_pointer(head)) return found_in(kPointers, head);
  head = head.substr(0, kForeignHeadBytes);
  if (std::string text = found_in(kOrderMarks, head); !text.empty()) return text;
  return unmarked_utf16(head);
}

std::string foreign_data(std::string_view head) {
  if (std::string text = foreign_text(head); !text.empty()) return text;
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  return found_in(kAnswers, lower_case(head.substr(0, kForeignHeadBytes)));
}

}  // namespace lmtrain
