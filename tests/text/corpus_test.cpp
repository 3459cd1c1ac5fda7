#include "text/corpus.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "prepare/folder.h"
#include "text/document_batches.h"
#include "text/sources.h"

namespace lmtrain {
namespace {

using Locations = std::vector<std::pair<size_t, int64_t>>;

Locations locations_of(const Corpus& corpus, const DocumentLocation& from) {
  Locations locations;
  ProgressBar progress("reading", corpus.total_bytes());
  DocumentBatches(corpus).for_each(
      progress,
      [&](const BatchPointer& batch) {
        batch->complete(corpus);
        for (size_t i = 0; i < batch->size(); ++i) {
          const auto& [file, position] = batch->location(i);
          locations.emplace_back(file, position);
          EXPECT_EQ(batch->document(i), str(static_cast<char>('a' + file), position));
        }
      },
      from);
  return locations;
}

Locations locations_in_file(const Corpus& corpus, size_t file, int64_t first) {
  Locations locations;
  ProgressBar progress("reading", corpus.total_bytes());
  corpus.read_file(file, first, progress,
                   [&](std::string_view text, const DocumentLocation& location) {
                     EXPECT_EQ(text, str(static_cast<char>('a' + file), location.position));
                     locations.emplace_back(location.file, location.position);
                   });
  return locations;
}

TEST(Corpus, DocumentsKnowTheirLocationAndAPassMayBeginAtAny) {
  const Folder folder;
  folder.write("a", "a0\n\na1\na2\n");
  folder.write("b", "");
  folder.write("c", "c0\nc1");
  Corpus corpus{list_source_files({{folder.str(), 1.0}}), DataFormat::kLines, "text"};
  decide_formats(corpus.files, corpus.format, corpus.text_field, "/data/train");
  const Locations all = {{0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}};
  for (size_t first = 0; first < all.size(); ++first) {
    const Locations rest(all.begin() + static_cast<int64_t>(first), all.end());
    EXPECT_EQ(locations_of(corpus, {all[first].first, all[first].second}), rest);
  }
  EXPECT_EQ(locations_of(corpus, {1, 0}), Locations({{2, 0}, {2, 1}}));
  EXPECT_EQ(locations_of(corpus, {2, 2}), Locations());
  EXPECT_EQ(locations_of(corpus, {3, 0}), Locations());
  EXPECT_EQ(locations_in_file(corpus, 0, 0), Locations({{0, 0}, {0, 1}, {0, 2}}));
  EXPECT_EQ(locations_in_file(corpus, 0, 2), Locations({{0, 2}}));
  EXPECT_EQ(locations_in_file(corpus, 1, 0), Locations());
  EXPECT_EQ(locations_in_file(corpus, 2, 1), Locations({{2, 1}}));
  EXPECT_EQ(locations_in_file(corpus, 2, 2), Locations());
}

}  // namespace
}  // namespace lmtrain
