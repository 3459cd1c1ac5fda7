// The settings of `optimizer`, and those of its defaults that follow its type.
#include <algorithm>

#include "config/settings.h"

namespace lmtrain {
namespace {

// These are Muon and the types whose step moves each weight by about lr, whatever its matrix.
const std::vector<OptimizerType> kTakesBaseWidth = {
    OptimizerType::kAdamW,   OptimizerType::kLion, OptimizerType::kAdEMAMix, OptimizerType::kMuon,
    OptimizerType::kRmsProp, OptimizerType::kAdam, OptimizerType::kAdopt,    OptimizerType::kMars};

}  // namespace

bool takes_base_width(OptimizerType type) {
  return std::ranges::find(kTakesBaseWidth, type) != kTakesBaseWidth.end();
}

void add_optimizer_settings(SettingTable& t, OptimizerConfig& c) {
  using Type = OptimizerType;
  using Unit = TrainingDuration::Unit;
  const std::vector<Unit> of_run = {Unit::kSteps, Unit::kTokens, Unit::kPercent};
  t.section("optimizer", "The update rule.");
  t.add("optimizer.type", &c.type,
        "muon: for hidden matrices; embeddings, head and one-dimensional tensors by adamw at the "
        "same lr.")
      .null_is("the recipe's: muon; with optimizer.lr given: adamw", "auto")
      .default_is("auto: muon; adamw where optimizer.lr or init_from is given")
      .from(
          "Loshchilov & Hutter 2019; Chen et al. 2023; Vyas et al. 2024; Pagliardini et al. 2024; "
          "Jordan 2024; Polyak 1964; Tieleman & Hinton 2012; Kingma & Ba 2015; Taniguchi et al. "
          "2024; Yuan et al. 2024");
  t.add("optimizer.lr", &c.lr,
        "Peak learning rate, one for all tensors. Where it is given, lmtrain chooses nothing: the "
        "other settings have their defaults.")
      .above(0)
      .null_is("the recipe's: rates by the role of a tensor and by width (docs/recipe.md)", "auto")
      .default_is("auto: the recipe; 1e-3 with init_from");
  t.add("optimizer.betas", &c.betas,
        "Decay rates of the moments: two, three for ademamix, one for rmsprop, none for sgd.")
      .below(0, 1)
      .default_is(
          "[0.9, 0.95]; lion [0.9, 0.99]; soap [0.95, 0.95]; ademamix [0.9, 0.999, 0.9999]; "
          "rmsprop [0.99]; adopt [0.9, 0.9999]; mars [0.95, 0.99]; sgd none");
  t.add("optimizer.eps", &c.eps,
        "Added to the root of the second moment; adopt: the least that the root counts as.")
      .above(0)
      .used_if("optimizer.type", {Type::kAdamW, Type::kSoap, Type::kAdEMAMix, Type::kMuon,
                                  Type::kRmsProp, Type::kAdam, Type::kAdopt, Type::kMars})
      .default_is("1e-8; adopt 1e-6");
  t.add("optimizer.weight_decay", &c.weight_decay,
        "Decoupled decay, times the learning rate, of every tensor of two or more dimensions; "
        "adam: coupled, added to the gradient.")
      .at_least(0)
      .null_is("the recipe's: by the passes over the text; with optimizer.lr given: 0.1, adam 0",
               "auto")
      .default_is("0.1; adam 0; more where the recipe goes over the text several times");
  t.add("optimizer.cautious_decay", &c.cautious_decay,
        "Weight decay only of those weights that the update moves towards zero.")
      .from("Chen et al. 2025, Cautious Weight Decay");
  t.add("optimizer.momentum", &c.momentum, "Decay of the momentum.")
      .below(0, 1)
      .used_if("optimizer.type", {Type::kMuon, Type::kSgd})
      .default_is("0.95; sgd 0.9");
  t.add("optimizer.nesterov", &c.nesterov, "Whether the momentum is Nesterov's.")
      .used_if("optimizer.type", {Type::kMuon, Type::kSgd});
  t.add("optimizer.ns_steps", &c.ns_steps, "Newton-Schulz iterations.")
      .range(1, 100)
      .used_if("optimizer.type", {Type::kMuon});
  t.add("optimizer.ns_coefficients", &c.ns_coefficients,
        "Coefficients of the Newton-Schulz iterations. quintic: the same in each; polar_express: "
        "its "
        "own for each, so that fewer iterations may do.")
      .used_if("optimizer.type", {Type::kMuon})
      .from("Jordan 2024; Amsel et al. 2025, The Polar Express");
  t.add("optimizer.adjust_lr", &c.adjust_lr,
        "Scale of a matrix' update. match_rms_adamw: as large as adamw's; original: by the ratio "
        "of its sides.")
      .used_if("optimizer.type", {Type::kMuon})
      .from("Liu et al. 2025, Muon is Scalable");
  t.add("optimizer.normuon", &c.normuon,
        "Rows of a matrix' update, one for each output neuron, divided by the root of their second "
        "moment.")
      .used_if("optimizer.type", {Type::kMuon})
      .from("Li et al. 2025, NorMuon");
  t.add("optimizer.normuon_beta2", &c.normuon_beta2, "Decay of NorMuon's second moment.")
      .below(0, 1)
      .used_if("optimizer.normuon", {"true"});
  t.add("optimizer.alpha", &c.alpha, "Weight of the slow momentum.")
      .at_least(0)
      .used_if("optimizer.type", {Type::kAdEMAMix});
  t.add("optimizer.alpha_warmup", &c.alpha_warmup, "Over what alpha grows from 0; 0: none.")
      .in_units(of_run, Unit::kSteps)
      .used_if("optimizer.type", {Type::kAdEMAMix});
  t.add("optimizer.beta3_warmup", &c.beta3_warmup,
        "Over what the third beta grows from the first; 0: none.")
      .in_units(of_run, Unit::kSteps)
      .used_if("optimizer.type", {Type::kAdEMAMix});
  t.add("optimizer.precondition_frequency", &c.precondition_frequency,
        "Steps between two eigenbases.")
      .range(1, 1'000'000)
      .used_if("optimizer.type", {Type::kSoap});
  t.add("optimizer.max_precond_dim", &c.max_precond_dim,
        "Sides longer than this are not preconditioned.")
      .range(1, 1'000'000'000)
      .used_if("optimizer.type", {Type::kSoap});
  t.add("optimizer.gamma", &c.gamma,
        "How much the gradient's change since the last update counts, times beta / (1 - beta).")
      .at_least(0)
      .used_if("optimizer.type", {Type::kMars})
      .from("Yuan et al. 2024, MARS");
  t.add("optimizer.groups", &c.groups,
        "Own lr and weight_decay for tensors by name; the first group that matches wins.");
  t.add("optimizer.base_width", &c.base_width,
        "The model.hidden_size that lr was found at. An untied head gets lr times base_width / "
        "model.hidden_size, and so do the layers' matrices, with muon times its root (adjust_lr "
        "original: lr itself). It is written out as groups; groups that are given win.")
      .range(1, 1'000'000)
      .used_if("optimizer.type", kTakesBaseWidth)
      .null_is("one lr for any width")
      .from("Yang et al. 2022, Tensor Programs V");
}

SettingTable group_settings(OptimizerGroupConfig& group) {
  SettingTable table;
  table.add("pattern", &group.pattern, "Glob over the tensors' Hugging Face names.")
      .must_be_given();
  table.add("lr", &group.lr, "Peak learning rate.").above(0).null_is("optimizer.lr");
  table.add("weight_decay", &group.weight_decay, "Weight decay.")
      .at_least(0)
      .null_is("optimizer.weight_decay");
  return table;
}

OptimizerDefaults optimizer_defaults(OptimizerType type) {
  using Type = OptimizerType;
  OptimizerDefaults d;
  switch (type) {
    case Type::kAdamW:
    case Type::kMuon:
      break;
    case Type::kLion:
      d.betas = {0.9, 0.99};
      break;
    case Type::kSoap:
      d.betas = {0.95, 0.95};
      break;
    case Type::kAdEMAMix:
      d.betas = {0.9, 0.999, 0.9999};
      break;
    case Type::kSgd:
      d.betas = {};
      d.momentum = 0.9;
      break;
    case Type::kRmsProp:
      d.betas = {0.99};
      break;
    case Type::kAdam:
      d.weight_decay = 0;
      break;
    case Type::kAdopt:
      d.betas = {0.9, 0.9999};
      d.eps = 1e-6;
      break;
    case Type::kMars:
      d.betas = {0.95, 0.99};
      break;
  }
  return d;
}

}  // namespace lmtrain
