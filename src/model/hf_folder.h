// Converts weights between our flat buffer and the tensors of transformers' LlamaForCausalLM,
// Qwen3ForCausalLM, Qwen2ForCausalLM or MistralForCausalLM.
#pragma once

#include <vector>

#include "formats/safetensors.h"
#include "formats/tensor_files.h"
#include "model/parameters.h"

namespace lmtrain {

// Fills the masters from F32, BF16 or F16 tensors under HF names and refreshes the working weights.
// Throws Error(kData) naming folder and tensor when one is missing, has another shape or dtype, or
// is not of this model; the masters may then hold a part of the file. A tensor rotary_emb.inv_freq
// is ignored. Of a tied embedding and head one may be missing; where both are there with different
// values it throws Error(kData).
void load_weights(const TensorFiles& files, Parameters& parameters);

// Returns HF tensors that point into `flat`, a copy in host memory of the flat buffer in fp32 or
// bf16, or of its elements from `first` on: those tensors that lie in it whole. `flat` must stay
// alive. A tied head is left out, as transformers does.
std::vector<TensorToWrite> hf_tensors(const ParameterLayout& layout, const at::Tensor& flat,
                                      int64_t first = 0);

}  // namespace lmtrain
