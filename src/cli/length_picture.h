// The length of rows over a run, drawn in characters: a line a length, the longest on top, from the
// run's beginning on the left to its end on the right; the darker, the more of the batches there
// have this length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lmtrain {

// `shares` is [column][index into lengths], each column adding up to 1 (train/plan.h). `blocks`:
// with Unicode's blocks, else in ASCII.
std::string length_picture(const std::vector<std::vector<double>>& shares,
                           const std::vector<int64_t>& lengths, bool blocks);

// Characters in a line of standard output: the terminal's, within reason; 80 when it is none.
int64_t output_columns();
bool output_is_terminal();

}  // namespace lmtrain
