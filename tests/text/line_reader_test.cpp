#include "text/line_reader.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "prepare/folder.h"
#include "text/documents.h"

namespace lmtrain {
namespace {

TEST(LinesReader, EndsAndBlankLines) {
  const Folder folder;
  const Read result =
      read(folder.write("a.txt", std::string("one\r\n\n two \n\r\nth\0ree\nlast", 25)),
           DataFormat::kLines);
  EXPECT_EQ(result.texts, Texts({"one", " two ", std::string("th\0ree", 6), "last"}));
  EXPECT_EQ(result.positions, std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(result.skipped.blank_lines, 2);
  EXPECT_EQ(read(folder.write("b.txt", ""), DataFormat::kLines).texts, Texts());
  EXPECT_EQ(read(folder.write("c.txt", "x\n"), DataFormat::kLines).texts, Texts({"x"}));
}

TEST(LinesReader, LinesLongerThanAnyBuffer) {
  const Folder folder;
  const std::string a(3'000'001, 'a');
  const std::string b((1 << 20) - 1, 'b');
  EXPECT_EQ(read(folder.write("a.txt", a + "\n" + b + "\n\nc"), DataFormat::kLines).texts,
            Texts({a, b, "c"}));
}

}  // namespace
}  // namespace lmtrain
