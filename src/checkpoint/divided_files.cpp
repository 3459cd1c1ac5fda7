#include "checkpoint/divided_files.h"

#include <algorithm>
#include <utility>

namespace lmtrain {

namespace fs = std::filesystem;

DividedFiles::DividedFiles(const ParameterLayout& layout,
                           const std::vector<OptimizerBuffer>& buffers, CheckpointDType dtype)
    : layout_(layout), dtype_(dtype) {
  for (CheckpointFile& file : describe_tensor_files(layout, buffers, dtype)) {
    files_.emplace(file.name, SafetensorsLayout(std::move(file.tensors), file.metadata, file.name));
  }
}

uint64_t DividedFiles::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, file] : files_) bytes += file.file_size();
  return bytes;
}

void DividedFiles::create(const fs::path& folder) const {
  for (const auto& [name, file] : files_) create_file_of_size(folder / name, file.file_size());
}

WrittenPieces DividedFiles::write(const fs::path& folder, const CheckpointSnapshot& snapshot,
                                  bool with_headers) const {
  WrittenPieces written;
  for_each_tensor_file(layout_, snapshot, dtype_, [&](const CheckpointFile& mine) {
    const SafetensorsLayout& file = files_.at(mine.name);
    std::vector<std::pair<uint64_t, const TensorToWrite*>> places;
    for (const TensorToWrite& tensor : mine.tensors)
      places.emplace_back(file.offset_of(tensor), &tensor);
    std::sort(places.begin(), places.end());
    PieceWriter writer(folder / mine.name);
    if (with_headers) {
      writer.write(0, file.length());
      writer.write(file.length().size(), file.header());
    }
    for (const auto& [offset, tensor] : places) {
      writer.write(offset,
                   {static_cast<const char*>(tensor->data), SafetensorsLayout::size_of(*tensor)});
    }
    writer.finish();
    written[mine.name] = writer.pieces();
  });
  return written;
}

std::map<std::string, ManifestEntry> DividedFiles::join(
    const std::vector<WrittenPieces>& parts) const {
  std::map<std::string, ManifestEntry> sums;
  for (const auto& [name, file] : files_) {
    std::vector<FilePiece> pieces;
    for (const WrittenPieces& part : parts) {
      const std::vector<FilePiece>& more = part.at(name);
      pieces.insert(pieces.end(), more.begin(), more.end());
    }
    const FileSum sum = joined_sum(std::move(pieces), file.file_size(), name);
    sums[name] = {sum.size, sum.crc};
  }
  return sums;
}

}  // namespace lmtrain
