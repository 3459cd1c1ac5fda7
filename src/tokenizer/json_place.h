// A value of a JSON file, with its place, for strict reading. fail(), and each function that
// "fails", throws Error(kData) that names the file and the JSON pointer (RFC 6901).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lmtrain {

class JsonPlace {
 public:
  // `value` and `origin`, a file name, must outlive this place and every place made from it.
  JsonPlace(const nlohmann::json& value, const std::string& origin)
      : JsonPlace(&value, &origin, "") {}

  const nlohmann::json& value() const { return *value_; }
  // "file: /pointer", for messages.
  std::string name() const;
  [[noreturn]] void fail(std::string_view what) const;

  bool is_null() const { return value_->is_null(); }
  // Fails unless the value is an object whose keys are all among `keys`.
  const JsonPlace& require_object(std::initializer_list<std::string_view> keys) const;
  // Returns a member of an object; a null if the key is absent or the value is no object.
  JsonPlace member(std::string_view key) const;
  // Returns an element of an array. Requires an index below array_size().
  JsonPlace element(size_t index) const;
  // Returns the number of elements; fails if the value is no array.
  size_t array_size() const;

  // These return the value; they fail if it has another type.
  const std::string& text() const;
  bool boolean() const;
  bool boolean_or(bool absent) const { return is_null() ? absent : boolean(); }
  // Returns an integer from 0 to `most`; fails for any other value.
  int32_t integer(int32_t most) const;

 private:
  JsonPlace(const nlohmann::json* value, const std::string* origin, std::string pointer)
      : value_(value), origin_(origin), pointer_(std::move(pointer)) {}

  const nlohmann::json* value_;
  const std::string* origin_;
  std::string pointer_;
};

}  // namespace lmtrain
