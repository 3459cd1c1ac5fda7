#include "formats/json_fields.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

struct Point {
  int64_t x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};

struct Size {
  uint64_t width = 0;
};

struct Everything {
  bool flag = false;
  std::string name = "unnamed";
  std::optional<double> loss;
  std::optional<int64_t> step;
  std::optional<Point> corner;
  std::vector<Point> points;
  std::map<int64_t, Point> by_length;
  std::map<std::string, int64_t> by_name;
  Size size;
  std::optional<int64_t> extra;
};

}  // namespace

static void list_fields(Fields& json, Point& point) {
  json.element(point.x);
  json.element(point.y);
}

static void list_fields(Fields& json, Size& size) { json.whole(size.width); }

static void list_fields(Fields& json, Everything& all) {
  json.field("name", all.name);
  json.field("flag", all.flag);
  json.field("loss", all.loss);
  json.field("step", all.step);
  json.field("corner", all.corner);
  json.field("points", all.points);
  json.field("by_length", all.by_length);
  json.field("by_name", all.by_name);
  json.field("size", all.size);
  json.optional_field("extra", all.extra);
}

namespace {

std::string text_of(const Everything& all) {
  Json json = Json::object();
  Fields::write(json, all);
  return json.dump();
}

Everything full() {
  Everything all;
  all.flag = true;
  all.name = "x\"y";
  all.loss = 0.1;
  all.step = 1234567890123;
  all.corner = {-3, 0.5};
  all.points = {{1, 2}, {3, 1e-300}};
  all.by_length = {{64, {1, 0}}, {-1, {2, 0}}};
  all.by_name = {{"b", 2}, {"a", 1}};
  all.size.width = UINT64_MAX;
  all.extra = 5;
  return all;
}

TEST(JsonFields, WritesInTheOrderOfTheList) {
  EXPECT_EQ(text_of({}),
            R"({"name":"unnamed","flag":false,"loss":null,"step":null,"corner":null,"points":[],)"
            R"("by_length":{},"by_name":{},"size":0})");
  EXPECT_EQ(text_of(full()),
            R"({"name":"x\"y","flag":true,"loss":0.1,"step":1234567890123,"corner":[-3,0.5],)"
            R"("points":[[1,2.0],[3,1e-300]],"by_length":{"-1":[2,0.0],"64":[1,0.0]},)"
            R"("by_name":{"a":1,"b":2},"size":18446744073709551615,"extra":5})");
  Everything not_finite;
  not_finite.loss = NAN;
  EXPECT_EQ(text_of(not_finite), text_of({}));
}

TEST(JsonFields, ReadsWhatItWrites) {
  for (const Everything& all : {Everything(), full()}) {
    Everything read = full();  // nothing of what it was before is left
    Fields::read(Json::parse(text_of(all)), read);
    EXPECT_EQ(text_of(read), text_of(all));
    EXPECT_EQ(read.points, all.points);
    EXPECT_EQ(read.by_length, all.by_length);
    EXPECT_EQ(read.extra, all.extra);
  }
}

TEST(JsonFields, WhatIsMissingOrOfAnotherTypeIsAnException) {
  const Json whole = Json::parse(text_of(full()));
  for (const auto& [key, value] : whole.items()) {
    Json missing = whole;
    missing.erase(key);
    Everything read;
    if (key == "extra") {
      Fields::read(missing, read);
      EXPECT_FALSE(read.extra.has_value());
    } else {
      EXPECT_THROW(Fields::read(missing, read), Json::exception) << key;
    }
    Json wrong = whole;
    wrong[key] = Json::array({Json::object()});
    EXPECT_THROW(Fields::read(wrong, read), Json::exception) << key;
  }
  Json object_for_array = whole;
  object_for_array["points"] = Json::object({{"0", {1, 2}}});
  Everything read;
  EXPECT_THROW(Fields::read(object_for_array, read), Json::exception);
}

}  // namespace
}  // namespace lmtrain
