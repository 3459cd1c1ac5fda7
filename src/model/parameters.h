// Keeps the parameters of a Llama in flat buffers: fp32 master weights, and working weights in the
// precision of the run.
//
// Every tensor of transformers' LlamaForCausalLM, Qwen3ForCausalLM, Qwen2ForCausalLM or
// MistralForCausalLM is a range of the flat buffer, under its HF name. Tensors of two dimensions,
// which have weight decay by default, come first, then norms and biases, so that each kind is one
// range. q_proj, k_proj, v_proj are adjacent, without gaps, and so are gate_proj, up_proj: the
// model reads each group as one matrix, and the biases of the first as one vector. Each group, and
// each other tensor, begins at a multiple of 64 elements; gaps are zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

struct ParameterSpec {
  std::string name;  // HF name, "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;
  int64_t offset = 0;  // the first element in the flat buffer
  int64_t numel() const;
};

// Describes a tensor of the model's source: one HF tensor, or a group of adjacent ones.
struct WorkingSpec {
  int64_t layer = -1;  // -1: not in a layer
  std::string key;     // "qkv_proj"
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t numel() const;
};

class ParameterLayout {
 public:
  // `vocab_size` is the number of rows of the embedding; `model.vocab_size` is not read.
  ParameterLayout(const ModelConfig& model, int64_t vocab_size);

  // Returns the HF tensors, in the order of their offsets, without a tied head.
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<WorkingSpec>& working() const { return working_; }
  // Returns the number of elements of the flat buffer, gaps included.
  int64_t flat_size() const { return flat_size_; }
  // Elements [0, decayed_size) are the tensors of two dimensions; norms and biases follow.
  int64_t decayed_size() const { return decayed_size_; }
  // Returns N of the FLOP count: all parameters, embeddings included, a tied head counted once.
  int64_t num_parameters() const;
  // Returns the FLOPs of forward and backward of one token in rows of length T: 6N + 12 L D T, with
  // L layers and D = heads x head size.
  double flops_per_token(int64_t length) const;
  // Returns the same with half the attention, which is all that a causal mask needs: 6N + 6 L D T.
  double causal_flops_per_token(int64_t length) const;

 private:
  int64_t add(std::string name, std::vector<int64_t> shape);
  void add_working(int64_t layer, std::string key, std::vector<int64_t> shape, int64_t offset);

  std::vector<ParameterSpec> parameters_;
  std::vector<WorkingSpec> working_;
  int64_t flat_size_ = 0;
  int64_t decayed_size_ = 0;
  double attention_width_ = 0;  // L x D of the FLOP count
};

class Parameters {
 public:
  // All values are zero at first. fp32 working weights are the masters themselves. fp64 is for
  // tests: then the masters are fp64, and the working weights too.
  Parameters(ParameterLayout layout, at::ScalarType working_dtype, at::Device device);
  // Returns the same in releasable host memory, of which only written pages take room
  // (device/releasable_memory.h).
  static Parameters releasable(ParameterLayout layout, at::ScalarType working_dtype);
  // Takes these tensors, [flat_size] each, whose gaps must be zero. `working` may be `master`.
  Parameters(ParameterLayout layout, at::Tensor master, at::Tensor working);

  // Sets masters and working weights as transformers initialises them: normal(0, initializer_range)
  // in matrices and embedding, ones in the norms, zeros in biases. A value is a function of (seed,
  // tensor name, index). With kZeroOutputs, o_proj and down_proj are zero instead, so that a layer
  // adds nothing to the residual stream at first (Jordan et al. 2024, modded-nanogpt).
  void initialize(int64_t seed, double initializer_range,
                  Initializer initializer = Initializer::kNormal);
  // Sets only masters, of the tensors for which `takes` returns true. Requires fp32.
  void initialize_masters(int64_t seed, double initializer_range, Initializer initializer,
                          const std::function<bool(const ParameterSpec&)>& takes);
  // Returns parameters whose masters and working weights are these masters, for evaluation in fp32.
  Parameters in_fp32() const;
  // Rounds the masters into the working weights: all, or `size` elements from `first`.
  void refresh_working();
  void refresh_working(int64_t first, int64_t size);

  const ParameterLayout& layout() const { return layout_; }
  const at::Tensor& master() const { return master_; }    // [flat_size] fp32
  const at::Tensor& working() const { return working_; }  // [flat_size]
  // Returns a view of the masters of one HF tensor, in its shape.
  at::Tensor master_view(const ParameterSpec& spec) const;

 private:
  ParameterLayout layout_;
  at::Tensor master_;
  at::Tensor working_;
};

// Holds a range of the flat buffer of masters: whole tensors.
struct MasterRange {
  int64_t first = 0;  // element of the flat buffer
  at::Tensor values;  // [elements] fp32
};

// Returns the name of the first tensor with a value that is not finite; empty if there is none.
// `flat` is a flat buffer of this layout, such as the gradient or the masters. Checks only tensors
// for which `looks_at` returns true; an empty function: all tensors.
std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat,
                             const std::function<bool(const ParameterSpec&)>& looks_at = {});

}  // namespace lmtrain
