#include "formats/data_totals.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

class DataTotalsTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "data_totals.json";
};

TEST_F(DataTotalsTest, AreReadAsTheyWereWritten) {
  const DataTotals totals = {{7, 900, 3000}, {1, 90, 300}, {{0, 3, 400}, {2, 4, 500}}};
  write_data_totals(file_, totals);
  EXPECT_EQ(read_data_totals(file_), totals);
}

TEST_F(DataTotalsTest, AMissingOrDamagedFileTellsNothing) {
  EXPECT_EQ(read_data_totals(file_), std::nullopt);
  write_data_totals(file_, {{7, 900, 3000}, {}, {}});
  std::string text = read_file(file_);
  text[text.find('9')] = '8';
  write_file_atomic(file_, text);
  EXPECT_EQ(read_data_totals(file_), std::nullopt);
  write_file_atomic(file_, "[1");
  EXPECT_EQ(read_data_totals(file_), std::nullopt);
}

}  // namespace
}  // namespace lmtrain
