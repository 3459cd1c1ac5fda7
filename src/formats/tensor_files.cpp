#include "formats/tensor_files.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestIndex = 64 << 20;
constexpr const char* kCopyAdvice = "copy or download the folder again";

[[noreturn]] void fail_tensor_file(const fs::path& path, const std::string& what,
                                   const std::string& advice = kCopyAdvice) {
  throw Error(ErrorKind::kData, str(shown(path), ": ", what, "; ", advice));
}

[[noreturn]] void fail_no_tensors(const fs::path& folder) {
  const std::string wanted = str("has no ", kModelFile, " and no ", kModelIndexFile);
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!is_there(folder / name)) continue;
    fail_tensor_file(folder, str(wanted, ", only ", name, ", which can run code when read"),
                     "convert it in Python: AutoModelForCausalLM.from_pretrained(FOLDER)"
                     ".save_pretrained(NEW_FOLDER, safe_serialization=True); "
                     "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)");
  }
  fail_tensor_file(folder, wanted, "give a folder in the layout of Hugging Face transformers");
}

// tensor -> file, as the index says.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const JsonSource source{.kind = ErrorKind::kData, .origin = shown(path), .advice = kCopyAdvice};
  const nlohmann::json index = parse_strict_json(read_file(path, kLargestIndex), source);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail_tensor_file(path, "has no object \"weight_map\" that maps tensors to files");
  }
  std::map<std::string, std::string> file_of;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string())
      fail_tensor_file(path, str("the file of tensor ", quote(tensor), " is no string"));
    const auto& name = file.get_ref<const std::string&>();
    const bool plain = !name.empty() && name != "." && name != ".." &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      fail_tensor_file(path, str("the file of tensor ", quote(tensor), " is ", quote(name),
                                 ", not a plain file name"));
    }
    file_of.emplace(tensor, name);
  }
  return file_of;
}

uint64_t num_elements(const TensorToWrite& tensor) {
  uint64_t count = 1;
  for (const int64_t size : tensor.shape) count *= static_cast<uint64_t>(size);
  return count;
}

std::string shard_name(size_t index, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

std::string index_text(const std::vector<TensorShard>& files) {
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  nlohmann::json file_of;  // sorted by name
  for (const TensorShard& file : files) {
    for (const TensorToWrite& tensor : file.tensors) {
      parameters += num_elements(tensor);
      bytes += tensor_bytes(tensor);
      file_of[tensor.name] = file.file;
    }
  }
  const nlohmann::json index = {
      {"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
      {"weight_map", file_of}};
  return index.dump(2) + "\n";
}

}  // namespace

TensorFiles::TensorFiles(const fs::path& folder) : folder_(folder) {
  if (const FileKind kind = examine(folder).kind; kind != FileKind::kFolder) {
    throw Error(ErrorKind::kUsage,
                str(shown(folder), kind == FileKind::kMissing ? ": does not exist" : ": is a file",
                    "; give the folder that holds ", kModelFile));
  }
  if (is_there(folder / kModelFile)) {
    files_.emplace_back(folder / kModelFile);
    tensors_ = files_.front().tensors();
  } else if (is_there(folder / kModelIndexFile)) {
    open_shards();
  } else {
    fail_no_tensors(folder);
  }
}

void TensorFiles::open_shards() {
  const fs::path index_path = folder_ / kModelIndexFile;
  const std::map<std::string, std::string> file_of = read_index(index_path);
  std::set<std::string> shards;
  for (const auto& [tensor, file] : file_of) {
    if (shards.insert(file).second && !is_file(folder_ / file)) {
      fail_tensor_file(index_path, str("tensor ", quote(tensor), " should be in ", quote(file),
                                       ", which the folder lacks"));
    }
  }
  for (const std::string& shard : shards) {
    const SafetensorsFile& file = files_.emplace_back(folder_ / shard);
    for (const auto& [tensor, view] : file.tensors()) {
      const auto listed = file_of.find(tensor);
      if (listed != file_of.end() && listed->second != shard) {
        fail_tensor_file(file.path(), str("holds tensor ", quote(tensor), ", which ",
                                          kModelIndexFile, " places in ", quote(listed->second)));
      }
      if (!tensors_.emplace(tensor, view).second) {
        fail_tensor_file(file.path(),
                         str("holds tensor ", quote(tensor), ", as another file does"));
      }
    }
  }
  for (const auto& [tensor, file] : file_of) {
    if (!tensors_.contains(tensor)) {
      fail_tensor_file(folder_ / file, str("lacks tensor ", quote(tensor), ", which ",
                                           kModelIndexFile, " places there"));
    }
  }
}

const TensorView& TensorFiles::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    fail_tensor_file(folder_, str("has no tensor ", quote(name)),
                     "its config.json belongs to another model, or a file is incomplete");
  }
  return found->second;
}

uint64_t tensor_bytes(const TensorToWrite& tensor) {
  return num_elements(tensor) * dtype_size(tensor.dtype);
}

TensorShards divide_tensors(const std::vector<TensorToWrite>& tensors, uint64_t limit) {
  TensorShards shards;
  uint64_t bytes = 0;  // of the newest file
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t more = tensor_bytes(tensor);
    if (shards.files.empty() || bytes + more > limit) {
      shards.files.emplace_back();
      bytes = 0;
    }
    shards.files.back().tensors.push_back(tensor);
    bytes += more;
  }
  const size_t count = shards.files.size();
  for (size_t i = 0; i < count; ++i)
    shards.files[i].file = count == 1 ? kModelFile : shard_name(i, count);
  if (count > 1) shards.index = index_text(shards.files);
  return shards;
}

}  // namespace lmtrain
