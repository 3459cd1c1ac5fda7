// The rule of the choice, with times that a stand-in gives.
#include "products/choose_algorithm.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

using cuda::MatrixProduct;
using cuda::ProductAlgorithm;

constexpr MatrixProduct kProduct{768, 1024, 256};

// Algorithm i takes times[i][round] seconds in each round, and fails where that is 0.
class GivenTimes : public ProductAlgorithms {
 public:
  explicit GivenTimes(std::vector<std::vector<double>> times) : times_(std::move(times)) {}

  std::vector<ProductAlgorithm> algorithms(const MatrixProduct& product) override {
    EXPECT_EQ(product, kProduct);
    std::vector<ProductAlgorithm> all(times_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i][0] = static_cast<uint8_t>(i);
    return all;
  }
  std::optional<double> seconds(const MatrixProduct& product,
                                const ProductAlgorithm& algorithm) override {
    EXPECT_EQ(product, kProduct);
    const size_t i = algorithm[0];
    order.push_back(static_cast<int>(i));
    const double seconds = times_[i].at(
        static_cast<size_t>(std::count(order.begin(), order.end(), static_cast<int>(i)) - 1));
    return seconds > 0 ? std::optional(seconds) : std::nullopt;
  }

  std::vector<int> order;  // of what was measured

 private:
  std::vector<std::vector<double>> times_;
};

// The number of the algorithm that is chosen, -1 for none.
int chosen(std::vector<std::vector<double>> times) {
  GivenTimes from(std::move(times));
  const auto choice = choose_algorithm(from, kProduct);
  return choice ? choice->algorithm[0] : -1;
}

TEST(ChooseAlgorithm, TakesTheFastestByTheMedianOfThree) {
  EXPECT_EQ(chosen({{5, 5, 5}, {3, 3, 3}, {4, 4, 4}}), 1);
  // By its mean the second one would be the slowest, by its best time the last one the fastest.
  EXPECT_EQ(chosen({{5, 5, 5}, {3, 90, 3}, {1, 4, 4}}), 1);
}

TEST(ChooseAlgorithm, ANearTieGoesToTheOneThatIsExpectedToBeFaster) {
  EXPECT_EQ(chosen({{101.9, 101.9, 101.9}, {100, 100, 100}}), 0);
  EXPECT_EQ(chosen({{102.1, 102.1, 102.1}, {100, 100, 100}}), 1);
  EXPECT_EQ(chosen({{110, 110, 110}, {101, 101, 101}, {100, 100, 100}}), 1);
  // Each is near the next one, but the first is not near the fastest.
  EXPECT_EQ(chosen({{103, 103, 103}, {101.5, 101.5, 101.5}, {100, 100, 100}}), 1);
}

TEST(ChooseAlgorithm, OneThatFailsIsLeftOutInWhicheverRound) {
  EXPECT_EQ(chosen({{0}, {3, 3, 3}, {4, 4, 4}}), 1);
  EXPECT_EQ(chosen({{4, 4, 4}, {1, 1, 0}}), 0);
  EXPECT_EQ(chosen({{0}, {1, 0}}), -1);
  EXPECT_EQ(chosen({}), -1);
}

TEST(ChooseAlgorithm, MeasuresInTurnsAndNoneAgainThatFailed) {
  GivenTimes from({{2, 2, 2}, {1, 0}, {3, 3, 3}});
  const auto choice = choose_algorithm(from, kProduct);
  EXPECT_EQ(from.order, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 2}));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->seconds, 2);
}

TEST(ChooseAlgorithm, SaysWhatIsGainedOverTheFirstThatServes) {
  GivenTimes from({{0}, {8, 8, 8}, {6, 6, 6}});
  const auto choice = choose_algorithm(from, kProduct);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->seconds, 6);
  EXPECT_EQ(choice->seconds_of_first, 8);
}

}  // namespace
}  // namespace lmtrain
