#include "model/hf_folder.h"

#include <cstring>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  sizes.reserve(shape.size());
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return str("[", join(sizes, ", "), "]");
}

at::ScalarType scalar_type(const TensorView& view, const std::string& where) {
  switch (view.dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
    default:
      throw Error(
          ErrorKind::kData,
          str(where, " has dtype ", dtype_name(view.dtype),
              "; lmtrain reads weights in F32, BF16 and F16: save the model in one of these"));
  }
}

// Tensors that other writers leave in a Llama's folder and that carry nothing of the model.
bool is_derived(const std::string& name, bool tied) {
  return name.ends_with(".rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

}  // namespace

void load_weights(const TensorFiles& files, Parameters& parameters) {
  const ParameterLayout& layout = parameters.layout();
  std::set<std::string> known;
  for (const ParameterSpec& spec : layout.parameters()) known.insert(spec.name);
  for (const auto& [name, view] : files.tensors()) {
    if (!known.contains(name) && !is_derived(name, !known.contains("lm_head.weight"))) {
      throw Error(ErrorKind::kData, str(files.folder().string(), ": tensor ", name,
                                        " is not part of the model that config.json describes; is "
                                        "this a Llama without biases?"));
    }
  }
  for (const ParameterSpec& spec : layout.parameters()) {
    const TensorView& view = files.at(spec.name);
    const std::string where = str(files.folder().string(), ": tensor ", spec.name);
    if (view.shape != spec.shape) {
      throw Error(ErrorKind::kData,
                  str(where, " has shape ", shape_text(view.shape), ", the model needs ",
                      shape_text(spec.shape), "; config.json and weights do not belong together"));
    }
    // The bytes of a file need not be aligned for their type, so they are copied before they are
    // read as numbers.
    const at::Tensor stored = at::empty(spec.shape, scalar_type(view, where));
    std::memcpy(stored.data_ptr(), view.bytes.data(), view.bytes.size());
    parameters.master_view(spec).copy_(stored);
  }
  parameters.refresh_working();
}

std::vector<TensorToWrite> hf_tensors(const ParameterLayout& layout, const at::Tensor& flat,
                                      int64_t first) {
  const DType dtype = flat.scalar_type() == at::kBFloat16 ? DType::kBF16 : DType::kF32;
  std::vector<TensorToWrite> tensors;
  for (const ParameterSpec& spec : layout.parameters()) {
    const int64_t begin = spec.offset - first;
    if (begin < 0 || begin + spec.numel() > flat.numel()) continue;
    const at::Tensor values = flat.narrow(0, begin, spec.numel());
    tensors.push_back({spec.name, dtype, spec.shape, values.const_data_ptr()});
  }
  return tensors;
}

}  // namespace lmtrain
