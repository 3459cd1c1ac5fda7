// Text, lines, JSON lines and arrays, CSV and TSV, plain or compressed: the first byte says which,
// 128 and more xz.
#include <array>

#include "fuzz/tables.h"
#include "text/content.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(texts) {
  if (input.empty()) return;
  constexpr std::array<const char*, 5> kNames = {"x", "x.gz", "x.zst", "x.bz2", "x.xz"};
  constexpr std::array<const char*, 6> kFormats = {"text", "lines", "jsonl", "json", "csv", "tsv"};
  const auto choice = static_cast<uint8_t>(input.front());
  input.remove_prefix(1);
  const std::filesystem::path path = write_scratch(kNames[choice >= 128 ? 4 : choice % 4], input);
  read_documents(path, kFormats[choice / 4 % 6]);
  accepts([&] { (void)look_at(path, "text"); });
  (void)content_of(input, choice % 2 == 0, choice % 4 < 2, "a.b");
}

}  // namespace lmtrain::fuzzing
