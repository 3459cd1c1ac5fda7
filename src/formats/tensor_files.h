// TensorFiles gives the tensors of a model folder by their HF names. The folder holds
// model.safetensors, or shards with a model.safetensors.index.json that maps tensors to files.
// Where both are there, only model.safetensors is read. A tensor of a shard that the index does not
// list counts too.
//
// The constructor maps all files and checks them against each other; no tensor is copied. It throws
// Error(kIo), and:
//   Error(kUsage)  the path is no folder
//   Error(kData)   the folder has neither file, or a file is wrong; the message names file and
//                  tensor
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace lmtrain {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kModelIndexFile = "model.safetensors.index.json";

class TensorFiles {
 public:
  explicit TensorFiles(const std::filesystem::path& folder);

  // Views stay valid as long as this object.
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  bool contains(const std::string& name) const { return tensors_.contains(name); }
  // Throws Error(kData) that names folder and tensor when it is missing.
  const TensorView& at(const std::string& name) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void open_shards();

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView> tensors_;
};

// The tensors of one file of a folder.
struct TensorShard {
  std::string file;                    // its name
  std::vector<TensorToWrite> tensors;  // in the order given
};

struct TensorShards {
  std::vector<TensorShard> files;
  std::string index;  // the text of model.safetensors.index.json; empty for a single file
};

// Divides the tensors of a model among files as save_pretrained of transformers does
// (huggingface_hub, serialization). In their order, a tensor that would take a file over `limit`
// bytes begins the next file; headers do not count. A tensor above `limit` has a file of its own. A
// single file is model.safetensors; several are model-00001-of-00002.safetensors and so on. `data`
// of the tensors is not read. Requires at least one tensor.
TensorShards divide_tensors(const std::vector<TensorToWrite>& tensors, uint64_t limit);

// Returns the size of a tensor's elements in bytes, unchecked (SafetensorsLayout::size_of()
// checks).
uint64_t tensor_bytes(const TensorToWrite& tensor);

}  // namespace lmtrain
