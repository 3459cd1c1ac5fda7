// What an incident says of its batch, and which numbers end a run.
#include "optim/incident.h"

#include <cmath>

#include "base/support.h"
#include "prepare/document_files.h"
#include "support/tensors.h"
#include "training/tiny_model.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;
using testing::TinyModel;
using Json = nlohmann::ordered_json;

Batch a_batch() {
  Batch batch;
  batch.index = 17;
  batch.length = 64;
  batch.documents = {4, 2, 4, 9};
  return batch;
}

TEST(Incident, NamesTheFirstTensorThatIsNotFinite) {
  const TinyModel model;
  const ParameterLayout& layout = model.parameters.layout();
  const at::Tensor flat = model.new_gradient();
  EXPECT_EQ(first_bad_tensor(layout, flat), "");
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    for (const size_t i : {layout.parameters().size() - 1, size_t{3}, size_t{0}}) {
      const ParameterSpec& spec = layout.parameters()[i];
      flat[spec.offset + spec.numel() - 1] = bad;  // its last number, beside the ones after it
      EXPECT_EQ(first_bad_tensor(layout, flat), spec.name);
    }
    flat.zero_();
  }
}

TEST(Incident, NamesItsDocumentsAndTheirFilesOnce) {
  const TinyModel model;
  const TemporaryFolder folder;
  const auto table = folder / "files.json";
  write_document_files(table, {{0, "/text/a"}, {3, "/text/b"}, {8, "/text/c"}});
  const Incident incident = describe_incident(a_batch(), 2.5, NAN, "", table);
  const Json expected = {{"skipped_batch", 17},
                         {"seq_len", 64},
                         {"documents", {2, 4, 9}},
                         {"files", {"/text/a", "/text/b", "/text/c"}},
                         {"loss", 2.5},
                         {"grad_norm", nullptr},
                         {"tensor", nullptr}};
  EXPECT_EQ(incident_fields(incident).dump(), expected.dump());
}

TEST(Incident, NamesTensorAndLossScaleWhereTheyAreKnown) {
  const TinyModel model;
  const TemporaryFolder folder;
  const at::Tensor gradient = model.new_gradient();
  gradient[0] = NAN;
  Incident incident =
      describe_incident(a_batch(), NAN, 1.5, first_bad_tensor(model.parameters.layout(), gradient),
                        folder / "gone.json");
  EXPECT_TRUE(incident_fields(incident).at("files").is_null());
  EXPECT_TRUE(incident_fields(incident).at("loss").is_null());
  EXPECT_EQ(incident_fields(incident).at("tensor"), "model.embed_tokens.weight");
  EXPECT_FALSE(incident_fields(incident).contains("loss_scale"));
  incident.loss_scale = 1024;
  EXPECT_EQ(incident_fields(incident).at("loss_scale"), 1024);
}

TEST(Incident, AStopNamesTheStepTheBatchAndTheSetting) {
  Incident incident;
  incident.batch = 17;
  StepDecision decision;
  decision.reason = "the loss is not finite";
  decision.anomaly = Anomaly::kNotFinite;
  std::string message =
      error_of(ErrorKind::kNumeric, [&] { throw stopped_by_guard(11, incident, decision); });
  EXPECT_EQ(message.find("step 12, batch 17: the loss is not finite; guard.on_nonfinite is"), 0U)
      << message;
  decision.anomaly = Anomaly::kSpike;
  message = error_of(ErrorKind::kNumeric, [&] { throw stopped_by_guard(11, incident, decision); });
  EXPECT_NE(message.find("guard.on_spike is \"stop\""), std::string::npos) << message;
}

TEST(Incident, WeightsThatAreLostEndARun) {
  const TinyModel model;
  Config config;
  TrainingState state;
  state.step = 9;
  state.loss = 2.0;
  const auto bad = [&] {
    return first_bad_tensor(model.parameters.layout(), model.parameters.master());
  };
  require_finite_weights(config, bad(), 9);
  require_finite_end(config, bad(), state.step, state.loss);

  model.parameters.master()[0] = NAN;
  const auto each = [&](const auto& expect) {
    expect(error_of(ErrorKind::kNumeric, [&] { require_finite_weights(config, bad(), 9); }));
    expect(error_of(ErrorKind::kNumeric,
                    [&] { require_finite_end(config, bad(), state.step, state.loss); }));
    expect(error_of(ErrorKind::kNumeric,
                    [&] { require_only_loss_lost(config, bad(), state.step, /*is_last=*/false); }));
  };
  each([](const std::string& message) {
    EXPECT_EQ(message.find("diverged: after step 9 the weights are not finite (first: "
                           "model.embed_tokens.weight)"),
              0U)
        << message;
    EXPECT_EQ(message.find("on_nonfinite"), std::string::npos) << message;
  });
  config.guard.on_nonfinite = GuardPolicy::kOff;
  each([](const std::string& message) {
    EXPECT_NE(message.find("guard.on_nonfinite is \"off\""), std::string::npos) << message;
  });
}

// With finite weights a loss that is not finite ends a run only where no step follows.
TEST(Incident, ALossThatIsNotFiniteEndsARunAtItsEnd) {
  const Config config;
  TrainingState state;
  state.step = 9;
  require_only_loss_lost(config, "", state.step, /*is_last=*/false);
  std::string message = error_of(ErrorKind::kNumeric, [&] {
    require_only_loss_lost(config, "", state.step, /*is_last=*/true);
  });
  EXPECT_NE(message.find("the held-out loss is not finite"), std::string::npos) << message;
  state.loss = NAN;
  message = error_of(ErrorKind::kNumeric,
                     [&] { require_finite_end(config, "", state.step, state.loss); });
  EXPECT_NE(message.find("the loss of the last step is not finite"), std::string::npos) << message;
  state.loss.reset();  // a checkpoint has kept it like this
  error_of(ErrorKind::kNumeric, [&] { require_finite_end(config, "", state.step, state.loss); });
  state.step = 0;
  require_finite_end(config, "", state.step, state.loss);
}

}  // namespace
}  // namespace lmtrain
