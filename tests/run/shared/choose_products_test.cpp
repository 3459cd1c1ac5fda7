// The choice of algorithms in a run: made before the first step, kept with the state, the same in
// every process. A CPU is in the GPU's place, and a library of ours in that of cuBLASLt's.
#include "run/shared/choose_products.h"

#include "e2e/tamper.h"
#include "products/library_in_use.h"
#include "products/product_text.h"
#include "run/verify_resume.h"
#include "train/tiny_run.h"

namespace lmtrain {
namespace {

using testing::Json;
using testing::LibraryInUse;
using testing::TinyRun;

// Ten steps in bf16, of two micro-batches each.
Json wanted(const Json& changes = Json::object()) {
  Json json{{"precision", "bf16"},
            {"products", "chosen"},
            {"sequence", {{"min_length", 32}}},
            {"batch", {{"micro_tokens", 64}}},
            {"train", {{"steps", 10}}},
            {"eval", {{"every", 0}}}};
  json.merge_patch(changes);
  return json;
}

// Begins a new process as far as products are concerned, in which another algorithm is the fastest.
void begin_anew(LibraryInUse& library, unsigned fastest) {
  testing::stand_in_cublas_lt() = {};
  library->algorithms = 3;
  library->slow = 0xFF & ~(1U << fastest);
  LibraryInUse::begin_anew();
}

void train(const TinyRun& tiny, std::optional<int64_t> checkpoint = std::nullopt) {
  Trainer trainer = tiny.trainer(checkpoint);
  std::optional<int64_t> heuristics;
  trainer.after_backward = [&](const Batch&, double&, const at::Tensor&) {
    if (!heuristics) heuristics = testing::stand_in_cublas_lt().heuristics;
  };
  EXPECT_EQ(trainer.run().exit_code, 0);
  EXPECT_EQ(heuristics, testing::stand_in_cublas_lt().heuristics) << "measured after a step";
  EXPECT_EQ(testing::stand_in_cublas_lt().surprises, 0);
}

// Weights and moments after step 10, where the run has gone on from step 5.
std::string resumed(const TinyRun& tiny) {
  std::filesystem::remove_all(tiny.run.checkpoint(10));
  train(tiny, 5);
  return tiny.bytes(10);
}

TEST(ChooseProducts, ARunKeepsWhatItHasChosenBeforeItsFirstStep) {
  LibraryInUse library;
  begin_anew(library, 1);
  const TinyRun tiny(wanted());
  train(tiny);
  const std::optional<ProductChoices> chosen = tiny.state(5).products;
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->library, 130100);
  EXPECT_EQ(chosen->micro_tokens, 64);
  EXPECT_EQ(static_cast<int64_t>(chosen->chosen.size()), library->heuristics);
  EXPECT_EQ(tiny.state(10).products, chosen);
  const std::string straight = tiny.bytes(10);

  begin_anew(library, 2);
  EXPECT_EQ(resumed(tiny), straight);
  EXPECT_EQ(library->heuristics, 0) << "measured again";
  EXPECT_GT(library->products, 0);
  EXPECT_EQ(tiny.state(10).products, chosen);
  EXPECT_EQ(tiny.events("resume").at(0).at("reason"), "");
}

// Shapes of all lengths and of a step's last micro-batch, forward, backward and gradient.
TEST(ChooseProducts, EveryProductOfAStepIsChosenFor) {
  LibraryInUse library;
  begin_anew(library, 1);
  TinyRun tiny(wanted());
  tiny.config.batch.micro_tokens = 96;  // a step of length 32 has three rows, and one more
  Trainer trainer = tiny.trainer();
  std::optional<std::vector<cuda::MatrixProduct>> of_steps;
  std::optional<NotedProducts> noted;
  trainer.after_backward = [&](const Batch&, double&, const at::Tensor&) {
    if (!noted) noted.emplace();  // from the second step on
    of_steps = noted->all();
  };
  EXPECT_EQ(trainer.run().exit_code, 0);
  std::set<cuda::MatrixProduct> chosen;
  const ProductChoices choices = tiny.state(10).products.value();
  for (const ProductChoice& choice : choices.chosen) chosen.insert(*product_of(choice));
  ASSERT_TRUE(of_steps);
  EXPECT_GE(of_steps->size(), 6U);
  for (const cuda::MatrixProduct& product : *of_steps)
    EXPECT_TRUE(chosen.contains(product)) << choice_of(product, {}).kind << " of " << product.n;
}

TEST(ChooseProducts, AnotherLibraryOrMicroBatchIsChosenForAnewAndTheResumeSaysSo) {
  LibraryInUse library;
  begin_anew(library, 1);
  TinyRun tiny(wanted());
  train(tiny);
  const auto expect_anew = [&](const std::string& reason) {
    resumed(tiny);
    EXPECT_GT(library->heuristics, 0) << reason;
    EXPECT_EQ(tiny.events("resume").back().at("reason"),
              "algorithms of products are chosen anew: " + reason);
  };
  const std::string straight = tiny.bytes(10);
  begin_anew(library, 2);
  library->version = 130200;
  expect_anew("cuBLASLt is 130200, and was 130100");
  EXPECT_EQ(tiny.state(10).products.value().library, 130200);
  EXPECT_NE(tiny.bytes(10), straight) << "or no test here shows what is kept";

  begin_anew(library, 2);
  tiny.config.batch.micro_tokens = 128;
  expect_anew("batch.micro_tokens is 128, and was 64");

  begin_anew(library, 2);
  tiny.config.batch.micro_tokens = 64;
  library->served = 0;  // none of those that were chosen, nor of those that might be
  std::filesystem::remove_all(tiny.run.checkpoint(10));
  train(tiny, 5);
  const std::string reason = tiny.events("resume").back().at("reason");
  EXPECT_NE(reason.find("the device does not take the algorithm of "), std::string::npos) << reason;
  EXPECT_TRUE(tiny.state(10).products.value().chosen.empty());
}

TEST(ChooseProducts, AProcessMeasuresOnce) {
  LibraryInUse library;
  begin_anew(library, 1);
  const TinyRun tiny(wanted());
  train(tiny);
  const int64_t measured = library->heuristics;
  const std::string straight = tiny.bytes(10);
  std::filesystem::remove_all(tiny.run.path());
  lmtrain::create_directories(tiny.run.path());
  library->slow = 0xFF & ~(1U << 2);
  train(tiny);
  EXPECT_EQ(library->heuristics, measured);
  EXPECT_EQ(tiny.bytes(10), straight);
}

// Each would make a choice of its own. One that forgets it, or takes another, is found.
TEST(ChooseProducts, BothWaysOfAVerificationTakeTheSameChoices) {
  LibraryInUse library;
  begin_anew(library, 1);
  const TinyRun tiny(wanted());
  const auto differences = [&](const std::function<void(const std::filesystem::path&)>& tamper) {
    return verify_resume(config_of_check(tiny.config), tiny.data, tiny.run, 6, only_process(),
                         [&](const std::filesystem::path& checkpoint) {
                           library->slow = 0xFF & ~(1U << 2);
                           if (tamper) tamper(checkpoint);
                         })
        .differences;
  };
  EXPECT_EQ(differences(nullptr), std::vector<std::string>());
  const std::vector<std::string> of_another = differences([](const auto& checkpoint) {
    testing::change_state(checkpoint, [](Json& state) {
      for (Json& choice : state["products"]["chosen"]) {
        std::string algorithm = choice["algorithm"];
        algorithm[1] = algorithm[1] == '0' ? '2' : '0';
        choice["algorithm"] = algorithm;
      }
    });
  });
  ASSERT_GE(of_another.size(), 2U);
  EXPECT_NE(of_another.front().find("the weight "), std::string::npos) << of_another.front();
  // A choice that decides no bit of these steps is compared as well.
  const std::vector<std::string> of_more = differences([](const auto& checkpoint) {
    testing::change_state(checkpoint, [](Json& state) {
      Json choice = state["products"]["chosen"][0];
      choice["m"] = 12345;
      state["products"]["chosen"].push_back(choice);
    });
  });
  ASSERT_EQ(of_more.size(), 1U);
  EXPECT_NE(of_more.front().find("products"), std::string::npos) << of_more.front();
}

TEST(ChooseProducts, ARunThatWantsNoneHasNone) {
  const TinyRun plain(wanted({{"products", "heuristic"}}));
  train(plain);
  EXPECT_FALSE(plain.state(10).products);
  const std::string expected = plain.bytes(10);
  EXPECT_EQ(read_file(plain.run.checkpoint(10) / "state.json").find("products"), std::string::npos);
  // On a CPU the setting has no effect.
  const TinyRun on_cpu(wanted());
  EXPECT_EQ(on_cpu.config.products, ProductSetting::kHeuristic);
  // A run that wants none any more drops them.
  LibraryInUse library;
  begin_anew(library, 1);
  TinyRun tiny(wanted());
  train(tiny);
  tiny.config.products = ProductSetting::kHeuristic;
  const int64_t before = library->products;
  resumed(tiny);
  EXPECT_EQ(library->products, before);
  EXPECT_FALSE(tiny.state(10).products);
}

// One of two processes, to which the other says what the test has written down.
class OneOfTwo final : public Processes {
 public:
  OneOfTwo(int rank, std::vector<std::string> said, std::string first_says = "")
      : said_(std::move(said)), first_says_(std::move(first_says)) {
    rank_ = rank;
    count_ = 2;
  }
  std::string broadcast(const std::string& bytes) override {
    return is_first() ? bytes : first_says_;
  }
  std::vector<std::string> gather_texts(const std::string& text) override {
    const std::string other = said_.at(next_++);
    return is_first() ? std::vector{text, other} : std::vector{other, text};
  }

  void sum(const at::Tensor& /*flat*/) override {}
  void sum_ranges(const at::Tensor& /*flat*/, const std::vector<ElementRange>& /*of*/) override {}
  void gather_ranges(const at::Tensor& /*flat*/, const std::vector<ElementRange>& /*of*/) override {
  }
  std::vector<RangeExchange*> aside(int /*count*/) override { return {}; }
  void pass(const at::Tensor& /*values*/, int /*from*/, int /*to*/) override {}
  void broadcast(const at::Tensor& /*values*/) override {}
  std::vector<double> all_gather(const std::vector<double>& values) override { return values; }
  void barrier() override {}
  void tell(const std::string& /*message*/) override {}
  std::string listen() override { return ""; }
  void meet(const std::string& /*stage*/) override {}
  void set_timeout(std::chrono::milliseconds /*timeout*/) override {}
  void give_up(int /*exit_code*/, const std::string& /*cause*/) noexcept override {}
  void leave() override {}
  void leave_note(const std::string& /*name*/, const std::string& /*text*/) override {}
  std::string take_note(const std::string& /*name*/, int /*from*/,
                        std::chrono::milliseconds /*patience*/) override {
    return "";
  }
  std::string name_of(int rank) const override { return str("rank ", rank); }

 private:
  std::vector<std::string> said_;
  std::string first_says_;
  size_t next_ = 0;
};

// What choose_products_once() chooses in one of two processes.
ProductChoices chosen_by(const TinyRun& tiny, Processes& processes) {
  Engine engine(tiny.config);
  engine.initialize(1);
  std::optional<ProductChoices> choices;
  choose_products_once(tiny.config, engine.model(), {64}, engine.gradient(), {}, choices,
                       processes);
  return choices.value();
}

std::string line(const ProductChoice& choice) {
  return str(choice.m, " ", choice.n, " ", choice.k, " ", choice.algorithm, " ", choice.kind, "\n");
}

TEST(ChooseProducts, AllProcessesTakeWhatTheFirstHasMeasured) {
  LibraryInUse library;
  begin_anew(library, 1);
  const TinyRun tiny(wanted());
  OneOfTwo first(0, {line({8, 16, 24, "NT bf16 fp32", std::string(128, '0')}), ""});
  const ProductChoices of_first = chosen_by(tiny, first);
  std::string sent;
  for (const ProductChoice& choice : of_first.chosen) sent += line(choice);
  const auto has = [](const ProductChoices& choices, int64_t k) {
    return std::any_of(choices.chosen.begin(), choices.chosen.end(),
                       [&](const ProductChoice& choice) { return choice.k == k; });
  };
  EXPECT_TRUE(has(of_first, 24)) << "a product of the other process alone";

  begin_anew(library, 2);
  OneOfTwo second(1, {"", ""}, sent);
  EXPECT_EQ(chosen_by(tiny, second), of_first);
  EXPECT_EQ(library->heuristics, 0) << "the second process has measured";

  // What one of them refuses is chosen nowhere.
  begin_anew(library, 1);
  OneOfTwo other(1, {"", line(of_first.chosen.at(0))}, sent);
  ProductChoices fewer = of_first;
  fewer.chosen.erase(fewer.chosen.begin());
  EXPECT_EQ(chosen_by(tiny, other), fewer);

  // And on resume all choose anew where one has to.
  std::optional<ProductChoices> kept = of_first;
  OneOfTwo resuming(0, {"the device is \"B\", and was \"A\""});
  EXPECT_EQ(take_up_products(tiny.config, kept, resuming),
            "algorithms of products are chosen anew: the device is \"B\", and was \"A\"");
  EXPECT_FALSE(kept);
}

}  // namespace
}  // namespace lmtrain
