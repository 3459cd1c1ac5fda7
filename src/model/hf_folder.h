// Converts weights between our flat buffer and the tensors of transformers' LlamaForCausalLM,
// Qwen3ForCausalLM, Qwen2ForCausalLM or MistralForCausalLM.
#pragma once

#include <vector>

#include "formats/safetensors.h"
#include "formats/tensor_files.h"
#include "model/parameters.h"

namespace lmtrain {

// Fills the masters from F32, BF16 or F16 tensors under HF names, and refreshes the working
// weights. Ignores tensors rotary_emb.inv_freq. A tied model may have the embedding, the head, or
// both. Throws Error(kData) that names folder and tensor; the masters may then hold a part of the
// file:
//   a tensor is missing, has another shape or dtype, or is not of this model
//   embedding and head of a tied model differ
void load_weights(const TensorFiles& files, Parameters& parameters);

// Returns the HF tensors that lie whole in `flat`, and point into it. `flat` is in host memory, in
// fp32 or bf16, and holds elements of the flat buffer from `first` on. It must outlive the result.
// Leaves out a tied head, as transformers does.
std::vector<TensorToWrite> hf_tensors(const ParameterLayout& layout, const at::Tensor& flat,
                                      int64_t first = 0);

}  // namespace lmtrain
