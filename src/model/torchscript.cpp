#include "model/torchscript.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/serialization/export.h>

#include <exception>

#include "base/file.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "model/llama_source.h"
#include "model/rope.h"
#include "model/round_weights.h"
#include "model/source_resolver.h"

namespace lmtrain {
namespace {

// The operators that the Llama's source calls as `lm` (ops/operators.h), in TorchScript and ATen's
// operators alone: what an exported module computes with. Each function is the composition
// `*_reference` of the operator that has its name, with the same casts. model/llama_source.h
// explains the suffixes.
constexpr const char* kAtenSource = R"(
def add_rms_norm(x: Tensor, residual: Optional[Tensor], weight: Tensor, eps: float) -> Tuple[Tensor, Tensor]:
    h = x
    if residual is not None:
        h = x + residual
    wide = h.float()
    normed = wide * torch.rsqrt(torch.mean(wide * wide, [-1], True) + eps) * weight.float()
    return h, normed.type_as(x)

def qk_norm(qkv_BTC: Tensor, q_weight: Tensor, k_weight: Tensor, num_heads: int, num_kv_heads: int,
            eps: float) -> Tensor:
    heads_BTHE = qkv_BTC.unflatten(-1, [num_heads + 2 * num_kv_heads, -1])
    keys = num_heads + num_kv_heads
    q_BTHE = add_rms_norm(heads_BTHE[:, :, :num_heads], None, q_weight, eps)[1]
    k_BTKE = add_rms_norm(heads_BTHE[:, :, num_heads:keys], None, k_weight, eps)[1]
    return torch.cat([q_BTHE, k_BTKE, heads_BTHE[:, :, keys:]], 2).flatten(2)

def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    return x + bias

def linear(x: Tensor, weight: Tensor) -> Tensor:
    return torch.linear(x, weight)

def mlp(x: Tensor, gate_up_weight: Tensor, down_weight: Tensor) -> Tensor:
    gate_up = torch.linear(x, gate_up_weight)
    width = gate_up.size(-1) // 2
    return torch.linear(torch.silu(gate_up[..., :width]) * gate_up[..., width:], down_weight)

def embedding(ids_BT: Tensor, weight_VD: Tensor) -> Tensor:
    return torch.embedding(weight_VD, ids_BT)

def rotated(x_BHTE: Tensor, cos_TR: Tensor, sin_TR: Tensor) -> Tensor:
    half = x_BHTE.size(-1) // 2
    first_BHTR = x_BHTE[..., :half].float()
    second_BHTR = x_BHTE[..., half:].float()
    return torch.cat([first_BHTR * cos_TR - second_BHTR * sin_TR, second_BHTR * cos_TR + first_BHTR * sin_TR],
                     -1).type_as(x_BHTE)

def repeated(x_BKTE: Tensor, times: int) -> Tensor:
    return x_BKTE.unsqueeze(2).expand([-1, -1, times, -1, -1]).flatten(1, 2)

def rope_attention(qkv_BTC: Tensor, cos_TR: Tensor, sin_TR: Tensor, num_heads: int, num_kv_heads: int,
                   segments: Optional[Tensor]) -> Tensor:
    assert segments is None, "the module takes rows of one segment"
    heads_BHTE = qkv_BTC.unflatten(-1, [num_heads + 2 * num_kv_heads, -1]).transpose(1, 2)
    q_BHTE = rotated(heads_BHTE[:, :num_heads], cos_TR, sin_TR)
    k_BKTE = rotated(heads_BHTE[:, num_heads:num_heads + num_kv_heads], cos_TR, sin_TR)
    v_BKTE = heads_BHTE[:, num_heads + num_kv_heads:]
    times = num_heads // num_kv_heads
    y_BHTE = torch.scaled_dot_product_attention(q_BHTE, repeated(k_BKTE, times), repeated(v_BKTE, times), None, 0.0, True)
    return y_BHTE.transpose(1, 2).flatten(2)
)";

using torch::jit::CompilationUnit;
using torch::jit::Module;

std::shared_ptr<torch::jit::SugaredValue> function_of(const CompilationUnit& unit,
                                                      const std::string& name) {
  return std::make_shared<torch::jit::FunctionValue>(&unit.get_function(c10::QualifiedName(name)));
}

// `lm` of the Llama's source, as functions of a compilation unit.
class Operators : public torch::jit::SugaredValue {
 public:
  explicit Operators(const CompilationUnit& unit) : unit_(unit) {}
  std::string kind() const override { return "operators"; }
  std::shared_ptr<SugaredValue> attr(const torch::jit::SourceRange& /*range*/,
                                     torch::jit::GraphFunction& /*method*/,
                                     const std::string& field) override {
    return function_of(unit_, field);
  }

 private:
  const CompilationUnit& unit_;
};

// Returns the source of forward(), which collects the parameters as the Llama's source takes them.
std::string forward_source(const std::vector<WorkingSpec>& specs, int64_t num_layers, bool tied) {
  std::vector<std::string> weights;
  std::vector<std::vector<std::string>> layers(static_cast<size_t>(num_layers));
  for (const WorkingSpec& spec : specs) {
    const std::string key = str("\"", spec.key, "\": ");
    if (spec.layer < 0) {
      const std::string from = tied && spec.key == "lm_head" ? "embed_tokens" : spec.key;
      weights.push_back(str(key, "self.", from));
    } else {
      layers[static_cast<size_t>(spec.layer)].push_back(
          str(key, "getattr(self.layers, \"", spec.layer, "\").", spec.key));
    }
  }
  std::vector<std::string> layer_texts;
  layer_texts.reserve(layers.size());
  for (const auto& layer : layers) layer_texts.push_back(str("{", join(layer, ", "), "}"));
  return str(R"py(
def forward(self, ids_BT: Tensor) -> Tensor:
    length = ids_BT.size(1)
    assert length <= max_length, "a row has more positions than the model (max_position_embeddings)"
    weights = {)py",
             join(weights, ", "), R"py(}
    layers = [)py",
             join(layer_texts, ", "), R"py(]
    return logits(ids_BT, weights, layers, self.cos[:length], self.sin[:length], None).float()
)py");
}

// Returns a module with parameters and tables, without code.
Module module_of(const ModelConfig& model, const Parameters& parameters, int64_t max_length,
                 DType dtype) {
  const auto unit = std::make_shared<CompilationUnit>();
  Module root(c10::QualifiedName("__torch__.Llama"), unit);
  Module layers(c10::QualifiedName("__torch__.Layers"), unit);
  std::vector<Module> each;
  for (int64_t i = 0; i < model.num_hidden_layers; ++i)
    each.emplace_back(c10::QualifiedName("__torch__.Layer"), unit, /*shouldMangle=*/true);
  const at::Tensor master = parameters.master().cpu();
  for (const WorkingSpec& spec : parameters.layout().working()) {
    if (model.tie_word_embeddings && spec.key == "lm_head") continue;
    const std::string name = spec.layer < 0 ? spec.key : str("layers.", spec.layer, ".", spec.key);
    // A copy, since a view would be saved with all of its memory.
    const at::Tensor weight =
        rounded_weights(master.narrow(0, spec.offset, spec.numel()), dtype, name)
            .clone()
            .view(spec.shape);
    Module& owner = spec.layer < 0 ? root : each[static_cast<size_t>(spec.layer)];
    owner.register_parameter(spec.key, weight, /*is_buffer=*/false);
  }
  for (size_t i = 0; i < each.size(); ++i) layers.register_module(std::to_string(i), each[i]);
  root.register_module("layers", layers);
  const auto [cos, sin] = rope_tables(model, max_length, at::kCPU);
  root.register_parameter("cos", cos, /*is_buffer=*/true);
  root.register_parameter("sin", sin, /*is_buffer=*/true);
  return root;
}

void save(const Module& module, const std::filesystem::path& file) {
  FileWriter writer(file);
  // libtorch's writer cannot be left by an exception, nor told of a failure: its destructor would
  // write on, and throw. So it goes on into nothing.
  std::exception_ptr failure;
  torch::jit::ExportModule(module, [&](const void* data, size_t size) {
    try {
      if (!failure) writer.write(data, size);
    } catch (...) {
      failure = std::current_exception();
    }
    return size;
  });
  if (failure) std::rethrow_exception(failure);
  writer.finish();
}

}  // namespace

void write_torchscript(const std::filesystem::path& file, const ModelConfig& model,
                       const Parameters& parameters, int64_t max_length, DType dtype) {
  const at::NoGradGuard no_grad;
  const auto torch_names = std::make_shared<torch::jit::BuiltinModule>("aten");
  CompilationUnit operators;
  operators.define(
      std::nullopt, kAtenSource,
      std::make_shared<SourceResolver>(SourceNames{{"torch", torch_names}}, SourceConstants{}),
      nullptr);
  CompilationUnit llama;
  llama.define(std::nullopt, str(kNoDropoutSource, kLlamaLogitsSource),
               std::make_shared<SourceResolver>(
                   SourceNames{{"torch", torch_names},
                               {"lm", std::make_shared<Operators>(operators)},
                               {"hidden_linear", function_of(operators, "linear")},
                               {"hidden_mlp", function_of(operators, "mlp")}},
                   llama_constants(model)),
               nullptr);
  Module module = module_of(model, parameters, max_length, dtype);
  module.define(
      forward_source(parameters.layout().working(), model.num_hidden_layers,
                     model.tie_word_embeddings),
      std::make_shared<SourceResolver>(SourceNames{{"logits", function_of(llama, "logits")}},
                                       SourceConstants{{"max_length", max_length}}));
  // Without calls the code of the module is all that it needs.
  auto graph = module.get_method("forward").graph();
  torch::jit::Inline(*graph);
  torch::jit::ConstantPropagation(graph);
  torch::jit::PeepholeOptimize(graph);
  torch::jit::EliminateDeadCode(graph);
  module.eval();
  save(module, file);
}

}  // namespace lmtrain
