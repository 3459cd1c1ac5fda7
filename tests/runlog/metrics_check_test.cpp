#include "runlog/metrics_check.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/support.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using testing::replace_file;
using testing::TemporaryFolder;
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

std::string update(int64_t step) {
  return R"({"step":)" + std::to_string(step) + R"(,"tokens":)" + std::to_string(100 * step) +
         R"(,"loss":5.5,"grad_norm":0.5,"lr":0.001,"seq_len":32,"tokens_per_second":9.5,)" +
         R"("mfu":null,"elapsed":0.1})" + "\n";
}
std::string evaluation(int64_t step) {
  return R"({"step":)" + std::to_string(step) + R"(,"tokens":)" + std::to_string(100 * step) +
         R"(,"eval_loss":5.5,"eval_perplexity":9.5,"eval_bits_per_byte":2.5})" + "\n";
}

// Lines of an untouched run with an evaluation every fifth step.
std::string lines(int64_t from, int64_t to) {
  std::string text = from == 1 ? evaluation(0) : "";
  for (int64_t step = from; step <= to; ++step) {
    text += update(step);
    if (step % 5 == 0) text += evaluation(step);
  }
  return text;
}

TrainingState state_at(int64_t step, std::optional<int64_t> eval_step = std::nullopt) {
  TrainingState state;
  state.step = step;
  state.eval_step = eval_step;
  return state;
}

class MetricsCheck : public ::testing::Test {
 protected:
  MetricsDamage mend(const std::string& text, const TrainingState& state) {
    replace_file(file(), text);
    const MetricsDamage damage = mend_metrics(file(), state);
    // The copy is what was there; what is kept is whole.
    EXPECT_EQ(damage.copy.empty(), damage.dropped_lines == 0);
    if (!damage.copy.empty()) {
      EXPECT_EQ(read_file(damage.copy), text);
    }
    EXPECT_EQ(mend_metrics(file(), state).dropped_lines, 0);
    return damage;
  }
  // Looks at the last 2 KiB alone, which are some ten updates.
  MetricsDamage mend_end(const std::string& text, const TrainingState& state) {
    replace_file(file(), text);
    return mend_metrics(file(), state, /*examined=*/2048);
  }
  std::string kept() const { return read_file(file()); }
  fs::path file() const { return folder_ / "metrics.jsonl"; }

  TemporaryFolder folder_;
};

TEST_F(MetricsCheck, CutsAWholeFileAtTheState) {
  for (const std::string& behind :
       {std::string(), std::string("{\"step\":13,\"to"), std::string(3, '\0')}) {
    EXPECT_FALSE(mend(lines(1, 12) + behind, state_at(8, 5)).any());
    EXPECT_EQ(kept(), lines(1, 8));
  }
  EXPECT_FALSE(mend(lines(1, 12), state_at(10, 10)).any());
  EXPECT_EQ(kept(), lines(1, 10));
  // An evaluation that the state does not know of is made again.
  EXPECT_FALSE(mend(lines(1, 12), state_at(10, 5)).any());
  EXPECT_EQ(kept(), lines(1, 9) + update(10));
  EXPECT_FALSE(mend(lines(1, 12), state_at(0, 0)).any());
  EXPECT_EQ(kept(), evaluation(0));
  EXPECT_FALSE(mend(lines(1, 12), state_at(0)).any());
  EXPECT_EQ(kept(), "");
}

// What lies before the end is not looked at, whatever it is.
TEST_F(MetricsCheck, OfALongFileTheEndAlone) {
  const std::string before = "no line\n" + update(70) + update(3) + std::string(50, '\0') + "\n";
  EXPECT_FALSE(mend_end(before + lines(40, 60), state_at(60, 60)).any());
  EXPECT_EQ(kept(), before + lines(40, 60));
  EXPECT_FALSE(mend_end(before + lines(40, 60), state_at(58, 55)).any());
  EXPECT_EQ(kept(), before + lines(40, 58));
  // Damage in the end is mended, and what lies before stays.
  const MetricsDamage torn =
      mend_end(before + lines(40, 57) + "torn\n" + lines(59, 60), state_at(60, 60));
  EXPECT_EQ(torn.dropped_lines, 1);
  EXPECT_EQ(torn.lost, (Ranges{{58, 58}}));
  EXPECT_EQ(kept(), before + lines(40, 57) + lines(59, 60));
  // So are lines that are missing.
  EXPECT_EQ(mend_end(before + lines(40, 60), state_at(62, 60)).lost, (Ranges{{61, 62}}));
}

// More is looked at where the end is all of steps that are trained again.
TEST_F(MetricsCheck, OfALongFileAsMuchAsIsCutOff) {
  EXPECT_FALSE(mend_end(lines(1, 400), state_at(30, 30)).any());
  EXPECT_EQ(kept(), lines(1, 30));
  EXPECT_FALSE(mend_end(lines(1, 400), state_at(0, 0)).any());
  EXPECT_EQ(kept(), evaluation(0));
}

// Nobody reads this file to its end: it has a hole of a tebibyte.
TEST_F(MetricsCheck, TakesNoLongerForALongerFile) {
  constexpr uintmax_t kHole = uintmax_t{1} << 40;
  std::string end = "\n";
  for (int64_t step = 1'000'000; end.size() < 3 * kExaminedMetrics / 2; ++step) end += update(step);
  const auto last = static_cast<int64_t>(1'000'000 + std::count(end.begin(), end.end(), '\n') - 2);
  replace_file(file(), "");
  fs::resize_file(file(), kHole);
  std::ofstream(file(), std::ios::binary | std::ios::app) << end;
  EXPECT_FALSE(mend_metrics(file(), state_at(last)).any());
  EXPECT_EQ(fs::file_size(file()), kHole + end.size());
  EXPECT_FALSE(mend_metrics(file(), state_at(last - 1)).any());
  EXPECT_EQ(fs::file_size(file()), kHole + end.size() - update(last).size());
}

TEST_F(MetricsCheck, TakesOutWhatIsNoLine) {
  const std::string middle = update(4);
  for (const std::string& instead :
       {std::string(middle.size(), '\0'), std::string("{\"step\":4,\"tok\n"), std::string("\n"),
        "x" + middle, middle.substr(0, middle.size() - 1) + "}\n", std::string("[4]\n"),
        std::string(R"({"step":"4"})") + "\n", std::string(R"({"step":-4})") + "\n",
        std::string(R"({"step":4,"loss":1})") + "\n"}) {
    std::string text = lines(1, 12);
    text.replace(text.find(middle), middle.size(), instead);
    const MetricsDamage damage = mend(text, state_at(8, 5));
    EXPECT_EQ(damage.dropped_lines, 1) << instead;
    // Zeros without a newline take the next line with them.
    const bool joined = instead[0] == '\0';
    EXPECT_EQ(damage.lost, joined ? Ranges({{4, 5}}) : Ranges({{4, 4}})) << instead;
    if (!joined) {
      EXPECT_EQ(kept(), lines(1, 3) + lines(5, 8)) << instead;
    }
  }
}

TEST_F(MetricsCheck, EvaluationsMayHaveSetsWhoseFiguresAreNumbers) {
  const auto with = [](const std::string& set) {
    std::string line = evaluation(5);
    return line.insert(line.size() - 2, R"(,"eval_loss/prose":)" + set);
  };
  const std::string before = lines(1, 4) + update(5);
  for (const char* whole : {"2.5", "null"}) {
    EXPECT_FALSE(mend(before + with(whole) + lines(6, 8), state_at(8, 5)).any()) << whole;
    EXPECT_EQ(kept(), before + with(whole) + lines(6, 8));
  }
  EXPECT_EQ(mend(before + with(R"("2.5")") + lines(6, 8), state_at(8, 5)).dropped_lines, 1);
  EXPECT_EQ(kept(), before + lines(6, 8));
}

TEST_F(MetricsCheck, AWrongStepCostsItsLineAlone) {
  for (const char* wrong : {"\"step\":2,", "\"step\":7,", "\"step\":9,", "\"step\":400,"}) {
    std::string text = lines(1, 12);
    text.replace(text.find("\"step\":4,"), 9, wrong);
    const MetricsDamage damage = mend(text, state_at(8, 5));
    EXPECT_EQ(damage.lost, Ranges({{4, 4}})) << wrong;
    EXPECT_EQ(damage.dropped_lines, 1) << wrong;
    EXPECT_EQ(kept(), lines(1, 3) + lines(5, 8)) << wrong;
  }
}

TEST_F(MetricsCheck, SaysWhatIsMissing) {
  MetricsDamage damage = mend(lines(1, 2) + lines(5, 5) + lines(8, 8), state_at(8, 5));
  EXPECT_EQ(damage.lost, Ranges({{3, 4}, {6, 7}}));
  EXPECT_EQ(damage.dropped_lines, 0);
  EXPECT_NE(describe(damage, file()).find("updates 3 to 4, 6 to 7 are lost"), std::string::npos)
      << describe(damage, file());
  // Cut in the middle of a line.
  const std::string text = lines(1, 6);
  damage = mend(text.substr(0, text.size() - 9), state_at(8, 5));
  EXPECT_EQ(damage.lost, Ranges({{6, 8}}));
  EXPECT_EQ(damage.dropped_lines, 1);
  EXPECT_EQ(kept(), lines(1, 5));
  // A whole part twice.
  damage = mend(lines(1, 4) + lines(3, 8), state_at(8, 5));
  EXPECT_EQ(damage.dropped_lines, 2);
  EXPECT_TRUE(damage.lost.empty());
  fs::remove(file());
  damage = mend_metrics(file(), state_at(8, 5));
  EXPECT_TRUE(damage.missing);
  EXPECT_EQ(damage.lost, Ranges({{1, 8}}));
  EXPECT_FALSE(fs::exists(file()));
}

// Every bit of a file: nothing is thrown but Error, and what is kept stays in order.
TEST_F(MetricsCheck, AnyBitIsNoticedOrLeavesAWholeFile) {
  const std::string whole = lines(1, 2);
  int noticed = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
    std::string text = whole;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    replace_file(file(), text);
    noticed += static_cast<int>(mend_metrics(file(), state_at(2, 0)).any());
    std::istringstream left(kept());
    int64_t last = 0;
    for (std::string line; std::getline(left, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("loss")) continue;
      EXPECT_GT(json["step"].get<int64_t>(), last);
      last = json["step"].get<int64_t>();
    }
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove(entry.path());
  }
  // All but digits that become others, and parts of names that nothing asks for.
  EXPECT_GT(noticed, static_cast<int>(whole.size()));
}

TEST_F(MetricsCheck, PutsTheLongestAside) {
  const RunFolder run(folder_.path());
  EXPECT_EQ(put_metrics_aside(run), "");
  replace_file(file(), evaluation(0));
  EXPECT_EQ(put_metrics_aside(run), "");
  EXPECT_TRUE(fs::exists(file()));
  replace_file(file(), lines(1, 7));
  EXPECT_NE(put_metrics_aside(run).find("had reached step 7"), std::string::npos);
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(read_file(metrics_aside(run)), lines(1, 7));
  replace_file(file(), lines(1, 3));
  replace_file(run.events(), "torn\n{\"event\":\"save\",\"step\":2}\n");
  const std::string said = put_metrics_aside(run);
  EXPECT_NE(said.find("had reached step 3"), std::string::npos) << said;
  EXPECT_NE(said.find("one of step 2 was saved"), std::string::npos) << said;
  EXPECT_NE(said.find("not kept, as a longer attempt lies in"), std::string::npos) << said;
  EXPECT_EQ(read_file(metrics_aside(run)), lines(1, 7));
}

}  // namespace
}  // namespace lmtrain
