// Draws the length of rows over a run in characters. Each length has a line, the longest length on
// top. The run goes from left to right. The darker a character, the larger the share of batches
// that have this length at that point.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lmtrain {

// Returns the picture as lines of text. `shares` is [column][index into lengths], and each column
// adds up to 1 (length_shares of training/plan.h). `lengths` ascend. It uses Unicode's block
// characters if `blocks`, else ASCII.
std::string length_picture(const std::vector<std::vector<double>>& shares,
                           const std::vector<int64_t>& lengths, bool blocks);

// Returns the width of standard output, in characters: the terminal's width, limited to 40 to 160.
// Returns 80 if the width is not known or standard output is no terminal.
int64_t output_columns();
bool output_is_terminal();

}  // namespace lmtrain
