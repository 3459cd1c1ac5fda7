// Draws the length of rows over a run in characters. Each length has a line, the longest on top,
// from the run's beginning on the left to its end on the right. The darker a character, the more of
// the batches there have this length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lmtrain {

// Returns the picture, some lines of text. `shares` is [column][index into lengths], and each
// column adds up to 1 (length_shares of training/plan.h). `lengths` ascend. If `blocks`, it is drawn
// with Unicode's blocks, else in ASCII.
std::string length_picture(const std::vector<std::vector<double>>& shares,
                           const std::vector<int64_t>& lengths, bool blocks);

// Returns the characters in a line of standard output: those of the terminal, from 40 to 160; 80
// when it is none.
int64_t output_columns();
bool output_is_terminal();

}  // namespace lmtrain
