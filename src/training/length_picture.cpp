#include "training/length_picture.h"

#include <algorithm>
#include <array>

namespace lmtrain {
namespace {

using Shades = std::array<const char*, 5>;
constexpr Shades kBlocks = {" ", "\u2591", "\u2592", "\u2593", "\u2588"};
constexpr Shades kAscii = {" ", ".", ":", "+", "#"};

// Returns the index of a shade: blank only at 0, the darkest for three quarters and more.
size_t shade(double share) {
  return share <= 0 ? 0 : 1 + std::min<size_t>(3, static_cast<size_t>(share * 4));
}

}  // namespace

std::string length_picture(const std::vector<std::vector<double>>& shares,
                           const std::vector<int64_t>& lengths, bool blocks) {
  const Shades& shades = blocks ? kBlocks : kAscii;
  const char* edge = blocks ? "\u2502" : "|";
  const size_t margin = std::to_string(lengths.back()).size();
  std::string picture;
  for (size_t i = lengths.size(); i-- > 0;) {
    const std::string label = std::to_string(lengths[i]);
    picture += std::string(margin - label.size(), ' ') + label + " " + edge;
    for (const std::vector<double>& column : shares) picture += shades[shade(column[i])];
    picture += std::string(edge) + "\n";
  }
  const std::string end = "end";
  const std::string start = "start";
  if (shares.size() >= start.size() + end.size() + 1) {
    picture += std::string(margin + 2, ' ') + start +
               std::string(shares.size() - start.size() - end.size(), ' ') + end + "\n";
  }
  return picture;
}

}  // namespace lmtrain
