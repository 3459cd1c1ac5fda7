#include "tokenizer/vocabulary_scanner.h"

#include "prepare/folder.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/tokenizer_json_files.h"

namespace lmtrain {
namespace {

using nlohmann::json;

// The file as the scanner reads it, put together again.
json put_together(const ScannedVocabulary& scanned) {
  json value = json::parse(scanned.rest);
  json& model = value.at("model");
  EXPECT_EQ(model.at("vocab"), json::object());
  EXPECT_EQ(model.at("merges"), json::array());
  for (size_t id = 0; id < scanned.pieces.size(); ++id) {
    if (scanned.pieces[id].empty()) continue;
    model["vocab"][scanned.pieces[id]] = id;
    EXPECT_EQ(scanned.ids.find(scanned.pieces[id]), static_cast<int32_t>(id));
  }
  EXPECT_EQ(scanned.ids.size(), model.at("vocab").size());
  const auto piece = [&](int32_t id) { return scanned.pieces[static_cast<size_t>(id)]; };
  for (const BpeModel::Merge& merge : scanned.merges) {
    model["merges"].push_back({piece(merge.left), piece(merge.right)});
    EXPECT_EQ(piece(merge.joined), piece(merge.left) + piece(merge.right));
  }
  return value;
}

json with_pairs(json value) {
  for (json& merge : value["model"]["merges"]) {
    if (!merge.is_string()) continue;
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  return value;
}

TEST(VocabularyScanner, ReadsWhatJsonReads) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "o200k", "neox", "byte_bpe"}) {
    const json value = json::parse(reference_tokenizer_json(name));
    for (const int indent : {-1, 2}) {
      for (const bool escapes : {false, true}) {
        const auto scanned = scan_vocabulary(value.dump(indent, ' ', escapes));
        ASSERT_TRUE(scanned) << name;
        EXPECT_EQ(put_together(*scanned), with_pairs(value)) << name;
      }
    }
  }
}

std::string file(const std::string& vocab, const std::string& merges) {
  return R"({"a": ["}", {"b": 1.5e3}], "model": {"type": "BPE", "vocab": )" + vocab +
         R"(, "merges": )" + merges + R"(}, "model2": null})";
}

TEST(VocabularyScanner, ReadsEscapes) {
  const auto scanned = scan_vocabulary(
      file(R"({ "\u00e9\ud83d\ude00": 1,"\"\\\/\b\f\n\r\t":0, "x\u0041": 3 })", R"([ ])"));
  ASSERT_TRUE(scanned);
  EXPECT_EQ(scanned->pieces,
            (std::vector<std::string>{"\"\\/\b\f\n\r\t", "\u00E9\U0001F600", "", "xA"}));
  EXPECT_EQ(scanned->rest, file("{}", "[]"));
}

TEST(VocabularyScanner, LeavesWhatIsUnusualToTheCaller) {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2})";
  ASSERT_TRUE(scan_vocabulary(file(vocab, R"(["a b", ["a", "b"], "#version: 0.2"])")));
  for (const char* other : {"{}",
                            "[]",
                            "1",
                            "{\"a\": 01}",
                            "{\"a\": -1}",
                            "{\"a\": 1.0}",
                            "{\"a\": 1e2}",
                            "{\"a\": }",
                            "{\"a\": 4194304}",
                            "{\"a\": 99999999999999999999}",
                            "{\"a\": \"0\"}",
                            "{\"\": 0}",
                            "{\"a\": 0, \"a\": 1}",
                            "{\"a\": 0, \"b\": 0}",
                            "{\"\\ud800\": 0}",
                            "{\"\\udc00\": 0}",
                            "{\"\\x\": 0}",
                            "{\"\\u12\": 0}",
                            "{\"\xFF\": 0}",
                            "{\"\n\": 0}",
                            "{\"a\": 0,}"})
    EXPECT_FALSE(scan_vocabulary(file(other, "[]"))) << other;
  for (const char* other : {"{}", "\"a b\"", "[\"ab\"]", "[\"a  b\"]", "[\"b a\"]", "[[\"a\"]]",
                            "[[\"a\", \"b\", \"a\"]]", "[1]", "[\"a b\",]", "[\"a c\"]"})
    EXPECT_FALSE(scan_vocabulary(file(vocab, other))) << other;
  EXPECT_TRUE(scan_vocabulary(R"({"model": {"merges": [], "vocab": {"a": 0}}})"));
  EXPECT_FALSE(scan_vocabulary(R"({"model": {"merges": ["a a"], "vocab": {"a": 0}}})"));
  EXPECT_FALSE(scan_vocabulary(R"({"model": {"vocab": {"a": 0}}})"));
  EXPECT_FALSE(scan_vocabulary(R"({"model": []})"));
  const std::string whole = file(vocab, R"(["a b"])");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(scan_vocabulary(whole.substr(0, size))) << size;
}

// A fault beside the vocabulary is told with its place in the whole file.
TEST(VocabularyScanner, FaultsKeepTheirPlace) {
  std::string bytes = small_tokenizer_json().dump();
  ASSERT_TRUE(scan_vocabulary(bytes));
  bytes.back() = ']';
  expect_contains(error_of(ErrorKind::kData, [&] { read_tokenizer_json(bytes, "x.json"); }),
                  "x.json: not JSON at byte " + std::to_string(bytes.size() - 1));
}

}  // namespace
}  // namespace lmtrain
