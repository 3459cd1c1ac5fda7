// bench_tokenizer: what scripts/bench_tokenizer.sh runs. Each prints one line of JSON.
//   bench_tokenizer train TYPE PIECES FILE PATH...       a tokenizer trained on the text; seconds
//   bench_tokenizer texts FILE PATH...                   the documents as a JSON list
//   bench_tokenizer speed MODEL PATH...                  seconds of sentencepiece and of ours
//   bench_tokenizer ids MODEL TEXTS IDS [DECODED]        the ids of TEXTS; processor seconds to
//   open
//                                                        the model, to encode, and once more
//   bench_tokenizer splits PATH...                       for each known rule, documents that our
//                                                        scanner cuts otherwise than PCRE2; MB/s
//   bench_tokenizer corpus BYTES FOLDER PATH...          a corpus of that size from the text
//   bench_tokenizer prepare MODEL THREADS FOLDER CACHE   seconds and peak memory of preparing it
// Documents are the files of the PATHs. `speed` also counts the documents whose ids differ. TEXTS
// and IDS are of check_tokenizer_json.py: for each document a count (U32, little-endian), and as
// many bytes, or ids (I32). DECODED gets the texts of the ids, as TEXTS.
#include "tokenizer/tokenizer.h"

#include <sentencepiece_processor.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/read_file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "prepare/encode.h"
#include "prepare/prepare.h"
#include "text/sources.h"
#include "tokenizer/split_patterns.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Corpus corpus_of(const std::vector<std::string>& paths) {
  std::vector<DataSourceConfig> sources;
  for (const std::string& path : paths) sources.push_back({path, 1.0});
  Corpus corpus{list_source_files(sources, "", DataFormat::kText), DataFormat::kText, "text"};
  decide_formats(corpus.files, corpus.format, corpus.text_field, "");
  return corpus;
}

std::vector<std::string> texts_of(const Corpus& corpus) {
  std::vector<std::string> texts;
  for (const SourceFile& file : corpus.files) texts.push_back(read_file(file.path));
  return texts;
}

// Each way once, in turn, so that what else the machine does hits all alike.
Json measure_speed(const fs::path& model, const std::vector<std::string>& paths) {
  const Corpus corpus = corpus_of(paths);
  const std::vector<std::string> texts = texts_of(corpus);
  const std::string bytes = read_file(model);
  sentencepiece::SentencePieceProcessor library;
  if (!library.LoadFromSerializedProto(bytes).ok()) throw Error(ErrorKind::kData, "no model");
  size_t total = 0;
  size_t differences = 0;
  size_t tokens = 0;
  {
    const Tokenizer tokenizer(bytes, model.native());
    for (const std::string& text : texts) {
      Ids expected;
      if (!library.Encode(text, &expected).ok()) throw Error(ErrorKind::kInternal, "Encode");
      if (tokenizer.encode(text) != expected) ++differences;
      total += text.size();
      tokens += expected.size();
    }
  }
  std::vector<std::pair<std::string, std::function<double()>>> ways;
  ways.emplace_back("sentencepiece", [&] {
    return seconds_of([&] {
      Ids ids;
      for (const std::string& text : texts) static_cast<void>(library.Encode(text, &ids));
    });
  });
  const auto encode_all = [&](const Tokenizer& tokenizer) {
    return seconds_of([&] {
      for (const std::string& text : texts) tokenizer.encode(text);
    });
  };
  ways.emplace_back("cold", [&] { return encode_all(Tokenizer(bytes, model.native())); });
  ways.emplace_back("warm", [&] {
    const Tokenizer tokenizer(bytes, model.native());
    encode_all(tokenizer);
    return encode_all(tokenizer);
  });
  // From the files to documents in order, all threads counted. Several times over, since each
  // thread learns words for itself at first.
  constexpr int kRepeats = 4;
  Corpus repeated = corpus;
  for (int i = 1; i < kRepeats; ++i)
    repeated.files.insert(repeated.files.end(), corpus.files.begin(), corpus.files.end());
  for (const int threads : {1, 2}) {
    ways.emplace_back(str("pipeline_", threads), [&, threads] {
      const Tokenizer tokenizer(bytes, model.native());
      const DocumentEncoder encoder{tokenizer, false, false, threads};
      DocumentBatches batches(repeated);
      size_t count = 0;
      const double seconds = seconds_of([&] {
        encoder.encode(batches, HoldOut(), "tokenizing",
                       [&](const EncodedDocument& document) { count += document.ids.size(); });
      });
      if (count != kRepeats * tokens) ++differences;
      return seconds / kRepeats;
    });
  }
  Json seconds;
  for (const auto& [name, measure] : ways) seconds[name] = measure();
  return {{"documents", texts.size()},
          {"bytes", total},
          {"tokens", tokens},
          {"differing_documents", differences},
          {"seconds", seconds}};
}

// What this thread has had of a processor: other programs on the machine do not count.
double processor_seconds() {
  struct timespec time {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One thread encodes all documents, from an empty cache of words, and then again. `new_bytes` and
// `new_seconds` are of the documents behind the middle: the cache knows the documents before. Both
// are 0 if the last document holds the middle.
Json write_ids(const fs::path& model, const fs::path& texts_path, const fs::path& ids_path,
               const std::string& decoded_path) {
  const double before_open = processor_seconds();
  const Tokenizer tokenizer(read_file(model), model.native());
  const double open_seconds = processor_seconds() - before_open;
  const std::string texts = read_file(texts_path, uint64_t{4} << 30);
  std::vector<std::string_view> documents;
  size_t bytes = 0;
  for (std::string_view rest = texts; !rest.empty();) {
    uint32_t size = 0;
    if (rest.size() < sizeof size) throw Error(ErrorKind::kData, "TEXTS is cut short");
    std::memcpy(&size, rest.data(), sizeof size);
    rest.remove_prefix(sizeof size);
    if (rest.size() < size) throw Error(ErrorKind::kData, "TEXTS is cut short");
    documents.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
    bytes += size;
  }
  std::vector<Ids> ids;
  ids.reserve(documents.size());
  const double start = processor_seconds();
  size_t encoded = 0;
  size_t new_bytes = 0;
  double middle = 0;
  for (const std::string_view document : documents) {
    if (new_bytes == 0 && 2 * encoded >= bytes) {
      new_bytes = bytes - encoded;
      middle = processor_seconds();
    }
    ids.push_back(tokenizer.encode(document));
    encoded += document.size();
  }
  const double finish = processor_seconds();
  const double seconds = finish - start;
  const double new_seconds = new_bytes == 0 ? 0 : finish - middle;
  const double again = processor_seconds();
  for (const std::string_view document : documents) static_cast<void>(tokenizer.encode(document));
  const double warm_seconds = processor_seconds() - again;
  size_t tokens = 0;
  FileWriter writer(ids_path);
  for (const Ids& of_document : ids) {
    const auto count = static_cast<uint32_t>(of_document.size());
    writer.write(&count, sizeof count);
    writer.write(of_document.data(), count * sizeof(int32_t));
    tokens += count;
  }
  writer.finish();
  if (!decoded_path.empty()) {
    FileWriter decoded(decoded_path);
    for (const Ids& of_document : ids) {
      const std::string text = tokenizer.decode(of_document);
      const auto count = static_cast<uint32_t>(text.size());
      decoded.write(&count, sizeof count);
      decoded.write(text);
    }
    decoded.finish();
  }
  return {{"documents", ids.size()},    {"bytes", bytes},
          {"tokens", tokens},           {"open_seconds", open_seconds},
          {"seconds", seconds},         {"new_bytes", new_bytes},
          {"new_seconds", new_seconds}, {"warm_seconds", warm_seconds}};
}

Json train_model(const std::string& type, int64_t pieces, const fs::path& path,
                 const std::vector<std::string>& paths) {
  TokenizerConfig config;
  config.train.type = value_named<TokenizerType>(type).value();
  config.train.vocab_size = pieces;
  const std::vector<std::string> texts = texts_of(corpus_of(paths));
  std::vector<TokenizerFile> files;
  const double seconds = seconds_of([&] {
    files = train_tokenizer(config, [&](const TextSink& add) {
      for (const std::string& text : texts) add(text);
    });
  });
  write_file_atomic(path, files.front().bytes);
  return {{"pieces", pieces}, {"seconds", seconds}};
}

Json write_texts(const fs::path& path, const std::vector<std::string>& paths) {
  const Json texts = texts_of(corpus_of(paths));
  write_file_atomic(path, texts.dump(-1, ' ', false, Json::error_handler_t::replace));
  return {{"documents", texts.size()}};
}

// Each document is cut by both, and what differs is counted.
Json compare_splits(const std::vector<std::string>& paths) {
  std::vector<std::string> texts = texts_of(corpus_of(paths));
  size_t bytes = 0;
  for (std::string& text : texts) {
    std::string valid;
    append_replacing_malformed(valid, text);
    text.swap(valid);
    bytes += text.size();
  }
  Json rules = Json::array();
  for (const std::string_view pattern : kKnownPatterns) {
    const SplitScanner scanner = SplitScanner::of(pattern).value();
    const SplitRegex regex(pattern, "pattern");
    SplitRegex::Matcher matcher;
    size_t splits = 0;
    size_t differences = 0;
    double seconds = 0;
    double regex_seconds = 0;
    for (const std::string& text : texts) {
      const double start = processor_seconds();
      const auto found = splits_by_scanner(scanner, text);
      const double middle = processor_seconds();
      const auto expected = splits_by_regex(regex, matcher, text);
      seconds += middle - start;
      regex_seconds += processor_seconds() - middle;
      splits += found.size();
      if (found != expected) ++differences;
    }
    const double megabytes = static_cast<double>(bytes) / 1e6;
    rules.push_back({{"pattern", pattern},
                     {"splits", splits},
                     {"differing_documents", differences},
                     {"mb_per_s", megabytes / seconds},
                     {"pcre2_mb_per_s", megabytes / regex_seconds}});
  }
  return {{"documents", texts.size()}, {"bytes", bytes}, {"rules", rules}};
}

// JSON lines of real text, in which some words of every document are exchanged for others
// of it, so that no two repetitions are equal.
Json make_corpus(uint64_t size, const fs::path& folder, const std::vector<std::string>& paths) {
  const std::vector<std::string> texts = texts_of(corpus_of(paths));
  uint64_t written = 0;
  uint64_t random = 1;
  int64_t file = 0;
  std::string lines;
  while (written < size) {
    for (size_t i = 0; i < texts.size() && written < size; ++i) {
      std::string text = texts[i];
      for (size_t k = 0; k < text.size() / 200; ++k) {
        random = mix64(random);
        const size_t offset = random % text.size();
        const size_t from = (random >> 32) % text.size();
        const size_t length = std::min<size_t>(8, text.size() - std::max(offset, from));
        for (size_t j = 0; j < length; ++j) {
          // ASCII alone: the text stays valid UTF-8.
          if (((text[offset + j] | text[from + j]) & 0x80) == 0) text[offset + j] = text[from + j];
        }
      }
      lines += Json{{"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
      written += text.size();
      if (lines.size() < (size_t{64} << 20) && written < size) continue;
      char name[32];
      std::snprintf(name, sizeof name, "part_%06lld.jsonl", static_cast<long long>(file++));
      FileWriter writer(folder / name);
      writer.write(lines);
      writer.finish();
      lines.clear();
    }
  }
  return {{"bytes", written}, {"files", file}};
}

Json measure_prepare(const fs::path& model, int threads, const std::string& corpus,
                     const std::string& cache) {
  Config config;
  config.tokenizer.model = model.native();
  config.data.train = {{corpus, 1.0}};
  config.data.cache_dir = cache;
  PreparedData data;
  const double seconds = seconds_of([&] { data = prepare_data(config, threads); });
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return {{"bytes", data.train_bytes + data.eval_bytes},
          {"documents", data.train_documents + data.eval_documents},
          {"tokens", data.train_tokens + data.eval_tokens},
          {"seconds", seconds},
          {"peak_bytes", static_cast<int64_t>(usage.ru_maxrss) * 1024}};
}

int run(const std::vector<std::string>& words) {
  Json result;
  const auto from = [&](size_t i) {
    return std::vector<std::string>(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  };
  if (words.size() > 2 && words[0] == "speed") {
    result = measure_speed(words[1], from(2));
  } else if ((words.size() == 4 || words.size() == 5) && words[0] == "ids") {
    result = write_ids(words[1], words[2], words[3], words.size() == 5 ? words[4] : "");
  } else if (words.size() > 4 && words[0] == "train") {
    result = train_model(words[1], std::atoi(words[2].c_str()), words[3], from(4));
  } else if (words.size() > 2 && words[0] == "texts") {
    result = write_texts(words[1], from(2));
  } else if (words.size() > 1 && words[0] == "splits") {
    result = compare_splits(from(1));
  } else if (words.size() > 3 && words[0] == "corpus") {
    result = make_corpus(std::strtoull(words[1].c_str(), nullptr, 10), words[2], from(3));
  } else if (words.size() == 5 && words[0] == "prepare") {
    result = measure_prepare(words[1], std::atoi(words[2].c_str()), words[3], words[4]);
  } else {
    std::fputs("usage: see the top of bench/tokenizer.cpp\n", stderr);
    return 2;
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace lmtrain

int main(int argc, char** argv) {
  try {
    return lmtrain::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_tokenizer: %s\n", error.what());
    return 1;
  }
}
