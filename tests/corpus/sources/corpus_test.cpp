#include "corpus/sources/corpus.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "corpus/folder.h"
#include "corpus/sources/sources.h"

namespace lmtrain {
namespace {

using Places = std::vector<std::pair<size_t, int64_t>>;

Places places_of(const Corpus& corpus, const DocumentPlace& from) {
  Places places;
  ProgressBar progress("reading", corpus.total_bytes());
  corpus.for_each(
      progress,
      [&](std::string_view text, const DocumentPlace& place) {
        places.emplace_back(place.file, place.position);
        EXPECT_EQ(text, str(static_cast<char>('a' + place.file), place.position));
      },
      from);
  return places;
}

TEST(Corpus, DocumentsKnowTheirPlaceAndAPassMayBeginAtAny) {
  const Folder folder;
  folder.write("a", "a0\n\na1\na2\n");
  folder.write("b", "");
  folder.write("c", "c0\nc1");
  Corpus corpus{list_source_files({{folder.str(), 1.0}}), DataFormat::kLines, "text"};
  decide_formats(corpus.files, corpus.format, corpus.text_field, "/data/train");
  const Places all = {{0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}};
  for (size_t first = 0; first < all.size(); ++first) {
    const Places rest(all.begin() + static_cast<int64_t>(first), all.end());
    EXPECT_EQ(places_of(corpus, {all[first].first, all[first].second}), rest);
  }
  EXPECT_EQ(places_of(corpus, {1, 0}), Places({{2, 0}, {2, 1}}));
  EXPECT_EQ(places_of(corpus, {2, 2}), Places());
  EXPECT_EQ(places_of(corpus, {3, 0}), Places());
}

}  // namespace
}  // namespace lmtrain
