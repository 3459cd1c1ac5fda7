// JsonFields writes structs as JSON and reads them back. The fields of a struct are named once: one
// list serves writing and reading.
//
// The list of a struct is a static function `list_fields` in namespace lmtrain. It is not in the
// unnamed namespace, where argument-dependent lookup would not find it:
//
//   static void list_fields(JsonFields<Json>& json, LossScale& loss_scale) {
//     json.field("scale", loss_scale.scale);
//     json.field("good_in_a_row", loss_scale.good_in_a_row);
//   }
//
// A value is a number, a string, a struct with such a list, a vector (an array), a map (an object;
// keys are strings or int64_t) or an optional (null where it is empty). A number that is not finite
// is written as null too. A field that may hold such a number must be an optional: it is empty when
// it is read back. Reading throws the exceptions of nlohmann::json when a key is missing or a value
// has another type; the fields that were read before keep their new values. A number with a
// fraction, or out of range, has another type than an integer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "formats/strict_json.h"

namespace lmtrain {

// `Json` is nlohmann::json or nlohmann::ordered_json, which keeps the order of the list.
template <class Json>
class JsonFields {
 public:
  // Adds the fields of `value` to the object `json`.
  template <class T>
  static void write(Json& json, T value) {
    JsonFields fields(&json, nullptr);
    list_fields(fields, value);
  }
  // Reads the fields of `value` from the object `json`.
  template <class T>
  static void read(const Json& json, T& value) {
    JsonFields fields(nullptr, &json);
    list_fields(fields, value);
  }

  // list_fields() calls the functions that follow. Each writes `value` inside write(), and reads it
  // inside read(). field() is for the member `key` of an object.
  template <class T>
  void field(const char* key, T& value) {
    if (written_ != nullptr) {
      (*written_)[key] = to_json(value);
    } else {
      from_json(read_->at(key), value);
    }
  }
  // Returns whether `value` has a value. Inside read() it first sets `value`: to a
  // default-constructed T if the object has the member `key`, else to nothing. It reads no
  // contents.
  template <class T>
  bool has(const char* key, std::optional<T>& value) {
    if (read_ != nullptr) value = read_->contains(key) ? std::optional<T>(T{}) : std::nullopt;
    return value.has_value();
  }
  // Does the same as field(), but writes no member for an empty `value`, where field() writes null.
  template <class T>
  void optional_field(const char* key, std::optional<T>& value) {
    if (has(key, value)) field(key, *value);
  }
  // For a struct that is stored as an array: appends `value`, or reads the next element.
  template <class T>
  void element(T& value) {
    if (written_ != nullptr) {
      written_->push_back(to_json(value));
    } else {
      from_json(read_->at(next_++), value);
    }
  }
  // For a struct that is stored as one value: writes or reads `value` as the whole JSON.
  template <class T>
  void whole(T& value) {
    if (written_ != nullptr) {
      *written_ = to_json(value);
    } else {
      from_json(*read_, value);
    }
  }

 private:
  JsonFields(Json* written, const Json* read) : written_(written), read_(read) {}

  template <class T>
  static Json to_json(T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return value;
    } else {
      Json json;
      JsonFields fields(&json, nullptr);
      list_fields(fields, value);
      return json;
    }
  }
  static Json to_json(std::string& value) { return value; }
  template <class T>
  static Json to_json(std::optional<T>& value) {
    return value ? to_json(*value) : Json(nullptr);
  }
  template <class T>
  static Json to_json(std::vector<T>& values) {
    Json array = Json::array();
    for (T& value : values) array.push_back(to_json(value));
    return array;
  }
  template <class T>
  static Json to_json(std::map<std::string, T>& values) {
    Json object = Json::object();
    for (auto& [key, value] : values) object[key] = to_json(value);
    return object;
  }
  template <class T>
  static Json to_json(std::map<int64_t, T>& values) {
    Json object = Json::object();
    for (auto& [key, value] : values) object[std::to_string(key)] = to_json(value);
    return object;
  }

  template <class T>
  static void from_json(const Json& json, T& value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      value = integer_in<T>(json);
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = json.template get<T>();
    } else {
      read(json, value);
    }
  }
  static void from_json(const Json& json, std::string& value) {
    value = json.template get<std::string>();
  }
  template <class T>
  static void from_json(const Json& json, std::optional<T>& value) {
    value.reset();
    if (!json.is_null()) from_json(json, value.emplace());
  }
  template <class T>
  static void from_json(const Json& json, std::vector<T>& values) {
    values.clear();
    for (const Json& value : json.template get_ref<const typename Json::array_t&>())
      from_json(value, values.emplace_back());
  }
  template <class T>
  static void from_json(const Json& json, std::map<std::string, T>& values) {
    values.clear();
    for (const auto& [key, value] : json.template get_ref<const typename Json::object_t&>())
      from_json(value, values[key]);
  }
  template <class T>
  static void from_json(const Json& json, std::map<int64_t, T>& values) {
    values.clear();
    for (const auto& [key, value] : json.template get_ref<const typename Json::object_t&>())
      from_json(value, values[std::strtoll(key.c_str(), nullptr, 10)]);
  }

  Json* written_;  // either this or the next is given
  const Json* read_;
  size_t next_ = 0;  // element to be read
};

}  // namespace lmtrain
