// The processes of one run on this machine, started by the variables that torchrun sets.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "e2e/workspace.h"
#include "reserved_port.h"

namespace lmtrain::testing {

class Ranks {
 public:
  // `options_of_one` are those of one rank, beside the variables: of `one`, or else of the last.
  Ranks(int count, const std::vector<std::string>& arguments,
        const ProcessOptions& options_of_one = {}, std::optional<int> one = {})
      : Ranks(arguments, options_of(count, options_of_one, one.value_or(count - 1))) {}
  // A process for each of the options.
  Ranks(const std::vector<std::string>& arguments, std::vector<ProcessOptions> all_options) {
    const int count = static_cast<int>(all_options.size());
    for (int rank = 0; rank < count; ++rank) {
      ProcessOptions& options = all_options[static_cast<size_t>(rank)];
      options.env.insert({{"RANK", std::to_string(rank)},
                          {"LOCAL_RANK", std::to_string(rank)},
                          {"WORLD_SIZE", std::to_string(count)},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", std::to_string(port_.number())}});
      ranks_.push_back(std::make_unique<LmtrainProcess>(arguments, options));
    }
  }
  Process& operator[](size_t rank) { return *ranks_[rank]; }
  // Of every rank, in order.
  std::vector<ProcessResult> wait() {
    std::vector<ProcessResult> results;
    for (const auto& rank : ranks_) results.push_back(rank->wait());
    return results;
  }

 private:
  static std::vector<ProcessOptions> options_of(int count, const ProcessOptions& options_of_one,
                                                int one) {
    std::vector<ProcessOptions> all(static_cast<size_t>(count));
    all[static_cast<size_t>(one)] = options_of_one;
    return all;
  }

  ReservedPort port_;
  std::vector<std::unique_ptr<LmtrainProcess>> ranks_;
};

// What each rank of a whole command ended with.
inline std::vector<ProcessResult> lmtrain_as(int count, const std::vector<std::string>& arguments) {
  return Ranks(count, arguments).wait();
}

inline void expect_all(const std::vector<ProcessResult>& results, int code) {
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, code) << result;
}

}  // namespace lmtrain::testing
