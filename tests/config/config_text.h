// Helpers of the config tests: parse text, or collect the lines of its errors.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/parse.h"

namespace lmtrain {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The problems of a configuration in run.json; empty when it is right.
inline std::vector<std::string> problems_of(const std::string& text,
                                            const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "run.json", overrides);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig) << error.what();
    return lines_of(error.what());
  }
}

// A configuration that needs nothing else, with `members` beside its data on the second line.
inline std::string config_text(const std::string& members = "") {
  return "{\"data\": {\"train\": [\"corpus\"]}" +
         (members.empty() ? std::string("}") : ",\n" + members + "}");
}

inline Config parsed(const std::string& members, const std::vector<std::string>& overrides = {}) {
  return parse_config(config_text(members), "run.json", overrides);
}

}  // namespace lmtrain
