#include "tokenizer/json_place.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

namespace {

const nlohmann::json kNull;

std::string escaped(std::string_view key) {
  std::string text;
  for (const char c : key) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return text;
}

}  // namespace

std::string JsonPlace::name() const {
  return str(*origin_, ": ", pointer_.empty() ? "the whole file" : pointer_);
}

void JsonPlace::fail(std::string_view what) const {
  throw Error(ErrorKind::kData, str(name(), " ", what,
                                    "; give another tokenizer.json, or the sentencepiece model of "
                                    "the tokenizer where it has one"));
}

const JsonPlace& JsonPlace::require_object(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) fail(str("is ", value_->type_name(), ", not an object"));
  for (const auto& [key, value] : value_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(str("has the key ", quote(key), ", which is not supported"));
  }
  return *this;
}

JsonPlace JsonPlace::member(std::string_view key) const {
  const auto found = value_->is_object() ? value_->find(std::string(key)) : value_->end();
  return {found == value_->end() ? &kNull : &*found, origin_, str(pointer_, "/", escaped(key))};
}

JsonPlace JsonPlace::element(size_t index) const {
  return {&(*value_)[index], origin_, str(pointer_, "/", index)};
}

size_t JsonPlace::array_size() const {
  if (!value_->is_array()) fail(str("is ", value_->type_name(), ", not an array"));
  return value_->size();
}

const std::string& JsonPlace::text() const {
  if (!value_->is_string()) fail(str("is ", value_->type_name(), ", not a string"));
  return value_->get_ref<const std::string&>();
}

bool JsonPlace::boolean() const {
  if (!value_->is_boolean()) fail(str("is ", value_->type_name(), ", not true or false"));
  return value_->get<bool>();
}

int32_t JsonPlace::integer(int32_t most) const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > static_cast<uint64_t>(most))
    fail(str("is not an integer from 0 to ", most));
  return value_->get<int32_t>();
}

}  // namespace lmtrain
