#include "optim/parameter_groups.h"

#include "base/support.h"
#include "optim/flat_moments.h"
#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::small_parameters;

const ParameterSpec kMatrix{"model.layers.3.mlp.up_proj.weight", {8, 4}, 0};
const ParameterSpec kNorm{"model.layers.3.input_layernorm.weight", {4}, 0};
const ParameterSpec kEmbedding{"model.embed_tokens.weight", {8, 4}, 0};

TEST(ParameterGroups, DecayIsForTwoDimensionsUnlessAGroupSaysOtherwise) {
  OptimizerConfig config;
  config.weight_decay = 0.25;
  EXPECT_EQ(group_of(config, kMatrix), (ParameterGroup{1, 0.25}));
  EXPECT_EQ(group_of(config, kEmbedding), (ParameterGroup{1, 0.25}));
  EXPECT_EQ(group_of(config, kNorm), (ParameterGroup{1, 0}));
  config.groups = {{"*norm*", {}, 0.5}, {"*embed*", {}, 0.0}};
  EXPECT_EQ(group_of(config, kMatrix), (ParameterGroup{1, 0.25}));
  EXPECT_EQ(group_of(config, kEmbedding), (ParameterGroup{1, 0}));
  EXPECT_EQ(group_of(config, kNorm), (ParameterGroup{1, 0.5}));
}

TEST(ParameterGroups, TheFirstThatMatchesWins) {
  OptimizerConfig config;
  config.lr = 1e-3;
  config.groups = {{"model.layers.[0-3].*.up_proj.weight", 4e-3, {}},
                   {"model.layers.*", 2e-3, 0.0}};
  EXPECT_EQ(group_of(config, kMatrix), (ParameterGroup{4, 0.1}));
  EXPECT_EQ(group_of(config, kNorm), (ParameterGroup{2, 0}));
  EXPECT_EQ(group_of(config, kEmbedding), (ParameterGroup{1, 0.1}));
  std::swap(config.groups[0], config.groups[1]);
  EXPECT_EQ(group_of(config, kMatrix), (ParameterGroup{2, 0}));
  // A pattern is of the whole name.
  config.groups = {{"up_proj", 4e-3, {}}};
  EXPECT_EQ(group_of(config, kMatrix), (ParameterGroup{1, 0.1}));
}

TEST(ParameterGroups, OneThatMatchesNothingIsAnError) {
  Parameters parameters = small_parameters();
  OptimizerConfig config;
  config.groups = {{"*", 1e-3, {}}, {"model.layer.*", 1e-3, {}}};
  const std::string message =
      error_of(ErrorKind::kConfig, [&] { make_optimizer(config, parameters); });
  for (const char* part : {"/optimizer/groups/1/pattern", "model.layer.*", "model.norm.weight"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(ParameterGroups, HiddenMatricesAreThoseOfTheLayers) {
  EXPECT_TRUE(is_hidden_matrix(kMatrix));
  EXPECT_FALSE(is_hidden_matrix(kNorm));
  EXPECT_FALSE(is_hidden_matrix(kEmbedding));
  EXPECT_FALSE(is_hidden_matrix({"lm_head.weight", {8, 4}, 0}));
}

TEST(FlatMoments, WithoutGroupsAreTwoRanges) {
  const Parameters parameters = small_parameters();
  const ParameterLayout& layout = parameters.layout();
  const FlatMoments all({}, parameters, {"m"}, every_parameter);
  ASSERT_EQ(all.ranges().size(), 2U);
  EXPECT_EQ(all.ranges()[0].size, layout.decayed_size());
  EXPECT_EQ(all.ranges()[1].first, layout.decayed_size());
  EXPECT_EQ(all.ranges()[1].moment_first, layout.decayed_size());
  EXPECT_EQ(all.ranges()[1].first + all.ranges()[1].size, layout.flat_size());
}

TEST(FlatMoments, HaveRoomForTheirOwnTensorsAlone) {
  const Parameters parameters = small_parameters();
  const FlatMoments hidden({}, parameters, {"m"}, is_hidden_matrix);
  ASSERT_EQ(hidden.ranges().size(), 1U);
  EXPECT_EQ(hidden.moment(0).numel(), hidden.ranges()[0].size);
  EXPECT_EQ(hidden.buffers().size(), 14U);
  const FlatMoments rest({}, parameters, {"m"},
                         [](const ParameterSpec& spec) { return !is_hidden_matrix(spec); });
  EXPECT_EQ(rest.moment(0).numel() + hidden.moment(0).numel(), parameters.layout().flat_size());
  // The embedding comes before the hidden matrices, the norms after them.
  ASSERT_EQ(rest.ranges().size(), 2U);
  EXPECT_EQ(rest.ranges()[1].moment_first, rest.ranges()[0].size);
}

}  // namespace
}  // namespace lmtrain
