// Draws the lengths of rows over a run in characters. Each length has a line, the longest on top.
// The run goes from left to right. The larger the share of batches with that length, the darker the
// character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lmtrain {

// Returns the picture as lines of text. shares[column][i] is the share of lengths[i] (length_shares
// of training/plan.h). `lengths` ascend. With `blocks` uses Unicode's block characters, else ASCII.
std::string length_picture(const std::vector<std::vector<double>>& shares,
                           const std::vector<int64_t>& lengths, bool blocks);

}  // namespace lmtrain
