// Weights between our flat buffer and the tensors of transformers' LlamaForCausalLM.
#pragma once

#include <vector>

#include "formats/safetensors.h"
#include "formats/tensor_files.h"
#include "model/parameters.h"

namespace lmtrain {

// Fills the masters from F32, BF16 or F16 tensors under HF names and refreshes the working weights.
// Error(kData) naming folder and tensor when one is missing, has another shape or dtype, or is not
// of this model.
void load_weights(const TensorFiles& files, Parameters& parameters);

// The masters as fp32 HF tensors over `flat`, a host copy of the flat buffer that must stay alive;
// a tied head is left out, as transformers does.
std::vector<TensorToWrite> hf_tensors(const ParameterLayout& layout, const float* flat);

}  // namespace lmtrain
