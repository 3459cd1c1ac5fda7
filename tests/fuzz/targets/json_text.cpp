// JSON as our two readers of it see it: what one of them accepts, nlohmann's parser accepts too.
#include <nlohmann/json.hpp>

#include "formats/strict_json.h"
#include "fuzz/target.h"
#include "text/json_line.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(json_text) {
  using nlohmann::json;
  const json other = json::parse(input, nullptr, /*allow_exceptions=*/false);
  json strict;
  if (accepts([&] { strict = parse_strict_json(input, {.origin = "input"}); }))
    require(strict == other || strict.dump(-1, ' ', false, json::error_handler_t::replace) ==
                                   other.dump(-1, ' ', false, json::error_handler_t::replace),
            "a value reads as another");

  if (input.find('\n') != std::string_view::npos) return;
  for (const char* field : {"text", "a.b"}) {
    JsonLineParser parser(field);
    const JsonText found = parser.parse(input);
    if (found.kind == JsonText::Kind::kProblem) {
      require(!found.problem.empty(), "a problem without words");
      continue;
    }
    // nlohmann refuses numbers that no double holds; it is asked about the rest alone.
    if (other.is_discarded()) continue;
    require(other.is_object(), "a text of no object");
    if (found.kind != JsonText::Kind::kText) continue;
    const json::json_pointer nested("/a/b");
    const bool is_dotted = std::string_view(field) == "a.b";
    const json* value = other.contains(field)                 ? &other.at(field)
                        : is_dotted && other.contains(nested) ? &other.at(nested)
                                                              : nullptr;
    require(value != nullptr && value->is_string() &&
                value->get_ref<const std::string&>() == found.text,
            "a text reads as another");
  }
}

}  // namespace lmtrain::fuzzing
