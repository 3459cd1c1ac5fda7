#include "base/text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>

#include "base/utf8.h"

namespace lmtrain {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    d[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

template <class... Args>
std::string formatted(const char* format, Args... args) {
  const int size = std::snprintf(nullptr, 0, format, args...);
  std::string text(static_cast<size_t>(std::max(size, 0)), '\0');
  std::snprintf(text.data(), text.size() + 1, format, args...);  // it ends with a zero
  return text;
}

// DEL, the control characters of ISO 8859, and what turns the direction of text or ends a line.
bool is_unseen(char32_t c) {
  return (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB);
}

}  // namespace

std::string printed(const char* format, double value) {
  return formatted(format, std::isnan(value) ? std::fabs(value) : value);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::string counted(int64_t count, std::string_view noun) {
  return str(count, " ", noun, count == 1 ? "" : "s");
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string shell_quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-+,=:@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !text.empty()) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string shown(std::string_view text, bool keeps_lines) {
  const auto is_plain = [&](unsigned char c) {
    return (c >= 0x20 && c < 0x7F) || (keeps_lines && (c == '\n' || c == '\t'));
  };
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    char32_t c = 0;
    const size_t size = decode_utf8(text, c);
    if (size == 0 || (c < 0x20 && !is_plain(static_cast<unsigned char>(c)))) {
      constexpr std::string_view kNames = "abtnvfr";
      const auto byte = static_cast<unsigned char>(text.front());
      out += byte >= 7 && byte <= 13 ? str('\\', kNames[byte - 7U]) : formatted("\\%03o", byte);
    } else if (is_unseen(c)) {
      out += formatted("\\u%04x", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    const size_t limit = std::max<size_t>(1, longer / 3);
    if (longer - shorter > limit) continue;  // the distance is at least that
    const size_t distance = edit_distance(word, candidate);
    if (distance <= limit && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::vector<std::string> most_similar_words(std::string_view word,
                                            const std::vector<std::string>& candidates,
                                            size_t count) {
  constexpr size_t kLeastPart = 3;  // letters of a part that is no accident
  word = word.substr(0, 256);       // a distance takes time and memory by both lengths
  const auto shares_part = [&](const std::string& candidate) {
    for (size_t begin = 0; begin <= word.size();) {
      const size_t end = std::min(word.find('_', begin), word.size());
      const std::string_view part = word.substr(begin, end - begin);
      if (part.size() >= kLeastPart && candidate.find(part) != std::string::npos) return true;
      begin = end + 1;
    }
    return false;
  };
  std::vector<std::pair<size_t, std::string>> ranked;
  ranked.reserve(candidates.size());
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    ranked.emplace_back(shares_part(candidate) ? 0 : 1 + distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) nearest.push_back(ranked[i].second);
  return nearest;
}

std::string format_count(double count) {
  constexpr std::array<const char*, 5> kSuffixes = {"", "K", "M", "B", "T"};
  size_t suffix = 0;
  double scaled = count;
  while (std::fabs(scaled) >= 999.5 && suffix + 1 < kSuffixes.size()) {
    scaled /= 1000.0;
    ++suffix;
  }
  if (suffix == 0 && scaled == std::floor(scaled)) return formatted("%.0f", scaled);
  const char* format = std::fabs(scaled) < 9.995   ? "%.2f%s"
                       : std::fabs(scaled) < 99.95 ? "%.1f%s"
                                                   : "%.0f%s";
  return formatted(format, scaled, kSuffixes[suffix]);
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto scaled = static_cast<double>(bytes);
  while (scaled >= 1024.0 && unit + 1 < kUnits.size()) {
    scaled /= 1024.0;
    ++unit;
  }
  return formatted(unit == 0 ? "%.0f %s" : "%.1f %s", scaled, kUnits[unit]);
}

std::string format_duration(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  if (total < 60) return formatted("%llds", static_cast<long long>(total));
  if (total < 3600)
    return formatted("%lldm%02llds", static_cast<long long>(total / 60),
                     static_cast<long long>(total % 60));
  if (total < 86400)
    return formatted("%lldh%02lldm", static_cast<long long>(total / 3600),
                     static_cast<long long>(total / 60 % 60));
  return formatted("%lldd%02lldh", static_cast<long long>(total / 86400),
                   static_cast<long long>(total / 3600 % 24));
}

std::string utc_timestamp(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return formatted("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                   utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(millis));
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::vector<std::string> key_parts(std::string_view key) {
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string quote(std::string_view name) {
  const std::string_view prefix = utf8_prefix(name, 120);
  return '"' + shown(prefix) + (prefix.size() < name.size() ? "...\"" : "\"");
}

std::string quoted_list(const std::vector<std::string>& names, size_t most) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) parts.push_back(quote(names[i]));
  if (names.size() > most) parts.emplace_back("...");
  return join(parts, ", ");
}

}  // namespace lmtrain
