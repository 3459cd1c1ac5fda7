// Keeps the parameters of a Llama in flat buffers: fp32 master weights, and working weights in the
// precision of the run.
//
// Every tensor of transformers' LlamaForCausalLM, Qwen3ForCausalLM, Qwen2ForCausalLM or
// MistralForCausalLM is a range of the flat buffer, under its HF name.
// Tensors of two dimensions, which have weight decay by default, come first, then norms and biases,
// so that each kind is one range. q_proj, k_proj, v_proj and gate_proj, up_proj are adjacent,
// without gaps: the model reads each of these two groups as one matrix, and the biases of the first
// as one vector. Each group, and each tensor that is in none, begins at a multiple of 64 elements;
// the gaps before them are zero.
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
  int64_t offset = 0;  // elements, in the flat buffer
  int64_t numel() const;
};

// Describes a tensor as the model's source names it: one HF tensor, or several that are adjacent.
struct WorkingSpec {
  int64_t layer = -1;  // -1: not in a layer
  std::string key;     // "qkv_proj"
  std::vector<int64_t> shape;
  int64_t offset = 0;
};

class ParameterLayout {
 public:
  // `vocab_size` is the number of rows of the embedding; `model.vocab_size` is not read.
  ParameterLayout(const ModelConfig& model, int64_t vocab_size);

  const std::vector<ParameterSpec>& parameters() const {
    return parameters_;
  }  // a tied head is not among them
  const std::vector<WorkingSpec>& working() const { return working_; }
  // Returns the elements of the flat buffer, gaps included.
  int64_t flat_size() const { return flat_size_; }
  // Elements [0, decayed_size) are the tensors of two dimensions; norms and biases follow.
  int64_t decayed_size() const { return decayed_size_; }
  // Returns N of the FLOP count: all parameters without the gaps, embeddings included, a tied head
  // counted once.
  int64_t num_parameters() const;
  // Returns the FLOPs of forward and backward of one token in rows of this length T: 6N + 12 L D T,
  // with L layers and D = heads x head size.
  double flops_per_token(int64_t length) const;
  // Returns the same without the part that a causal mask makes unnecessary: 6N + 6 L D T.
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
  // All values are zero at first. Working weights of dtype fp32 share the masters' memory. fp64 is
  // for tests: the masters are fp64 too, and shared.
  Parameters(ParameterLayout layout, at::ScalarType working_dtype, at::Device device);
  // Returns the same in host memory that is there where it was written
  // (device/releasable_memory.h).
  static Parameters releasable(ParameterLayout layout, at::ScalarType working_dtype);

  // Sets masters and working weights as transformers initialises them: normal(0, initializer_range)
  // in matrices and embedding, ones in the norms, zeros in biases. A value is a function of (seed,
  // tensor name, index) alone. With kZeroOutputs o_proj and down_proj of every layer are zero
  // instead, so that a layer adds nothing to the residual stream at first (Jordan et al. 2024,
  // modded-nanogpt); all other tensors have the same values.
  void initialize(int64_t seed, double initializer_range,
                  Initializer initializer = Initializer::kNormal);
  // Sets the masters alone of the tensors for which `takes` returns true, and writes no others.
  // Requires fp32 in host memory.
  void initialize_masters(int64_t seed, double initializer_range, Initializer initializer,
                          const std::function<bool(const ParameterSpec&)>& takes);
  // Returns parameters that share these masters, and have them as working weights too, for
  // evaluation in fp32.
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
  Parameters(ParameterLayout layout, at::Tensor master, at::Tensor working);

  ParameterLayout layout_;
  at::Tensor master_;
  at::Tensor working_;
};

// A part of the flat buffer of masters. It begins and ends where a tensor does.
struct MasterRange {
  int64_t first = 0;  // element of the flat buffer
  at::Tensor values;  // [elements] fp32
};

// Returns the name of the first tensor with a value that is not finite; empty when all are finite.
// `flat` is a flat buffer of this layout, such as the gradient or the masters. Only tensors for
// which `looks_at` returns true are looked at; an empty function means all tensors.
std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat,
                             const std::function<bool(const ParameterSpec&)>& looks_at = {});

}  // namespace lmtrain
