// A value of a JSON file with its place, for reading files of others strictly: what is missing, of
// another type or not known is an Error(kData) with file and JSON pointer (RFC 6901).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lmtrain {

class JsonPlace {
 public:
  // Both must outlive the place and all that are taken from it.
  JsonPlace(const nlohmann::json& value, const std::string& origin)
      : JsonPlace(&value, &origin, "") {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& pointer() const { return pointer_; }
  // "file: /pointer", for messages.
  std::string name() const;
  [[noreturn]] void fail(std::string_view what) const;

  bool is_null() const { return value_->is_null(); }
  // Fails unless the value is an object and has no other keys than these.
  const JsonPlace& require_object(std::initializer_list<std::string_view> keys) const;
  // Returns a member of an object; its is_null() is true where it is absent or the value is no
  // object.
  JsonPlace member(std::string_view key) const;
  // Returns an element of an array. Requires an index below array_size().
  JsonPlace element(size_t index) const;
  // The number of elements; fails where the value is no array.
  size_t array_size() const;

  // These return the value; they fail where it has another type.
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
