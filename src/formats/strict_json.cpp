#include "formats/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/foreign_text.h"
#include "base/text.h"
#include "formats/quote.h"

namespace lmtrain {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const JsonSource& source, const std::string& what) {
  throw Error(source.kind, str(source.origin, ": ", what, "; ", source.advice));
}

// Python's json writes numbers that JSON does not have. nlohmann stops within such a word.
std::string python_number(std::string_view text, size_t at) {
  constexpr size_t kLongest = 9;
  const size_t begin = at - std::min(at, kLongest);
  const std::string_view around = text.substr(begin, 2 * kLongest);
  for (const char* word : {"NaN", "Infinity"}) {
    if (around.find(word) != std::string_view::npos)
      return str(": ", word, " is Python's and no number of JSON, write null");
  }
  return {};
}

}  // namespace

json parse_strict_json(std::string_view text, const JsonSource& source) {
  if (const std::string other = foreign_text(text); !other.empty())
    throw Error(source.kind, str(source.origin, ": is ", other));
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail(source, str("not JSON: byte ", nul, " is zero"));
  }
  if (text.starts_with("\xEF\xBB\xBF")) fail(source, "not JSON: it begins with a byte order mark");

  std::vector<std::set<std::string>> keys;  // of the objects that are open, by depth
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens) {
      if (depth > source.max_depth) {
        fail(source, str("nested deeper than ", source.max_depth, " levels"));
      }
      keys.resize(static_cast<size_t>(depth) + 1);
      keys.emplace_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys[static_cast<size_t>(depth)].insert(key).second) {
        fail(source, str("the key ", quote(key), " stands twice in one object"));
      }
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::parse_error& error) {
    const std::string other = foreign_data(text.substr(0, kForeignHeadBytes));
    if (!other.empty()) throw Error(source.kind, str(source.origin, ": is ", other));
    // nlohmann counts from 1.
    const size_t at = std::max<size_t>(error.byte, 1) - 1;
    fail(source, str("not JSON at byte ", at, python_number(text, at)));
  } catch (const json::exception&) {
    fail(source, "not JSON: a number is too large");
  }
}

}  // namespace lmtrain
