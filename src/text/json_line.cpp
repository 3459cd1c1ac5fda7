#include "text/json_line.h"

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "formats/quote.h"
#include "text/json_scanner.h"

namespace lmtrain {
namespace {

using Type = JsonScanner::Type;

const char* name_of(Type type) {
  constexpr const char* kNames[] = {"nothing", "null",  "boolean", "number",
                                    "string",  "array", "object"};
  return kNames[static_cast<size_t>(type)];
}

std::string syntax_problem(size_t offset, std::string_view what) {
  return str("not JSON at column ", offset + 1, ": ", what,
             "; every line must be one JSON object in UTF-8: correct the line or remove it");
}

std::string missing_field(const std::string& field, const std::vector<std::string>& names) {
  const std::string nearest = nearest_word(field, names);
  if (!nearest.empty())
    return str("no field ", quote(field), "; did you mean ", quote(nearest), " (data.text_field)?");
  std::vector<std::string> shown(names.size());
  std::transform(names.begin(), names.end(), shown.begin(), quote);
  return str("no field ", quote(field), " (data.text_field); the line has: ", join(shown, ", "));
}

}  // namespace

JsonLineParser::JsonLineParser(std::string field)
    : field_(std::move(field)), path_(key_parts(field_)) {}

JsonText JsonLineParser::parse(std::string_view line) {
  const auto problem = [](std::string what) {
    return JsonText{JsonText::Kind::kProblem, {}, std::move(what)};
  };
  if (const size_t valid = valid_utf8_prefix(line); valid < line.size())
    return problem(syntax_problem(valid, "a byte that is not UTF-8"));
  JsonScanner scanner(line, field_, path_);
  try {
    scanner.scan();
  } catch (const JsonSyntaxError& error) {
    return problem(syntax_problem(error.offset, error.what));
  }
  if (scanner.type() != Type::kObject)
    return problem(str("the line holds ", name_of(scanner.type()), " instead of an object"));
  const JsonScanner::Found& found = scanner.field().count > 0 ? scanner.field() : scanner.path();
  if (found.count == 0) return problem(missing_field(field_, scanner.keys()));
  if (found.count > 1)
    return problem(str("field ", quote(field_), " is there ", found.count, " times"));
  if (found.type == Type::kNull) return {JsonText::Kind::kNull};
  if (found.type != Type::kString)
    return problem(
        str("field ", quote(field_), " is ", name_of(found.type), " instead of a string"));
  if (!found.has_escapes) return {JsonText::Kind::kText, found.raw};
  text_.clear();
  append_unescaped(found.raw, text_);
  return {JsonText::Kind::kText, text_};
}

}  // namespace lmtrain
