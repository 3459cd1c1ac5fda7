#include "model/hf_folder.h"

#include <cstring>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "model/round_weights.h"

namespace lmtrain {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  sizes.reserve(shape.size());
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return str("[", join(sizes, ", "), "]");
}

at::ScalarType scalar_type(const TensorView& view, const std::string& where) {
  if (const std::optional<at::ScalarType> type = weight_type(view.dtype)) return *type;
  throw Error(ErrorKind::kData,
              str(where, " has dtype ", dtype_name(view.dtype),
                  "; lmtrain reads weights in F32, BF16 and F16: save the model in one of these"));
}

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

// Bytes that are read at once when weights are loaded.
constexpr int64_t kReadAtOnce = int64_t{64} << 20;
constexpr int64_t kCopiedByAThread = int64_t{1} << 20;

// Copies the stored values to `to`, which has their shape. All threads read the file, and a GPU
// fetches one part while they read the next.
void copy_stored(const TensorView& view, const std::string& where, const at::Tensor& to) {
  const at::ScalarType dtype = scalar_type(view, where);
  const auto size = static_cast<int64_t>(dtype_size(view.dtype));
  const at::Tensor flat = to.view({-1});
  for (int64_t first = 0; first < flat.numel(); first += kReadAtOnce / size) {
    const int64_t count = std::min(kReadAtOnce / size, flat.numel() - first);
    // The bytes of a file may not be aligned for their type.
    const at::Tensor part = host_buffer({count}, dtype, flat.device());
    auto* const bytes = static_cast<char*>(part.data_ptr());
    const char* const from = view.bytes.data() + first * size;
    parallel_for_queued(count * size, kCopiedByAThread, [&](int64_t begin, int64_t end) {
      std::memcpy(bytes + begin, from + begin, static_cast<size_t>(end - begin));
    });
    flat.narrow(0, first, count).copy_(part, /*non_blocking=*/true);
  }
}

// Returns a copy of the stored values, since the bytes of a file may not be aligned for their type.
at::Tensor stored_values(const TensorView& view, const std::string& where) {
  at::Tensor stored = at::empty(view.shape, scalar_type(view, where));
  std::memcpy(stored.data_ptr(), view.bytes.data(), view.bytes.size());
  return stored;
}

// Throws Error(kData) if a tied model has a head that differs from its embedding. Version 4 of
// transformers ignores such a head, version 5 uses it, so nobody knows which model is meant.
void require_same_head(const TensorFiles& files) {
  const TensorView& embedding = files.at(kEmbedding);
  const TensorView& head = files.at(kHead);
  const std::string where = files.folder().string();
  bool is_same = head.dtype == embedding.dtype && head.shape == embedding.shape &&
                 head.bytes.size() == embedding.bytes.size() &&
                 std::memcmp(head.bytes.data(), embedding.bytes.data(), head.bytes.size()) == 0;
  if (!is_same && head.dtype != embedding.dtype && head.shape == embedding.shape) {
    is_same =
        at::equal(stored_values(head, str(where, ": tensor ", kHead)).to(at::kFloat),
                  stored_values(embedding, str(where, ": tensor ", kEmbedding)).to(at::kFloat));
  }
  if (is_same) return;
  throw Error(ErrorKind::kData,
              str(where, ": tie_word_embeddings is true in config.json, and the folder has ", kHead,
                  " with other values than ", kEmbedding,
                  ": transformers 4 ignores them, transformers 5 uses them. Set "
                  "tie_word_embeddings to false there to use them; to ignore them, save the folder "
                  "anew with transformers 4"));
}

// Returns the stored name of a parameter. A tied embedding may be stored under the name of the head
// alone.
const std::string& stored_name(const TensorFiles& files, const ParameterSpec& spec, bool tied) {
  static const std::string head = kHead;
  const bool as_head =
      tied && spec.name == kEmbedding && !files.contains(spec.name) && files.contains(head);
  if (!tied && spec.name == head && !files.contains(head)) {
    throw Error(ErrorKind::kData,
                str(files.folder().string(), ": has no tensor ", head,
                    ", and tie_word_embeddings is false in config.json, or missing there; set it "
                    "to true where the embedding is the head too, or get the whole model"));
  }
  return as_head ? head : spec.name;
}

// Tensors that other writers leave in a Llama's folder and that carry nothing of the model.
bool is_derived(const std::string& name, bool tied) {
  return name.ends_with(".rotary_emb.inv_freq") || (tied && name == kHead);
}

}  // namespace

void load_weights(const TensorFiles& files, Parameters& parameters) {
  const ParameterLayout& layout = parameters.layout();
  std::set<std::string> known;
  for (const ParameterSpec& spec : layout.parameters()) known.insert(spec.name);
  const bool tied = !known.contains(kHead);
  for (const auto& [name, view] : files.tensors()) {
    if (!known.contains(name) && !is_derived(name, tied)) {
      throw Error(ErrorKind::kData, str(files.folder().string(), ": tensor ", name,
                                        " is not part of the model that config.json describes; "
                                        "lmtrain has biases of q_proj, k_proj and v_proj in a "
                                        "qwen2 alone"));
    }
  }
  if (tied && files.contains(kHead) && files.contains(kEmbedding)) require_same_head(files);
  for (const ParameterSpec& spec : layout.parameters()) {
    const std::string& name = stored_name(files, spec, tied);
    const TensorView& view = files.at(name);
    const std::string where = str(files.folder().string(), ": tensor ", name);
    if (view.shape != spec.shape) {
      throw Error(ErrorKind::kData,
                  str(where, " has shape ", shape_text(view.shape), ", the model needs ",
                      shape_text(spec.shape), "; config.json and weights do not belong together"));
    }
    copy_stored(view, where, parameters.master_view(spec));
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
