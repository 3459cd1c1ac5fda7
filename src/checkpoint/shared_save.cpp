#include "checkpoint/shared_save.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/activities.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "device/failure.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// If training goes on beside the save, its exchanges notice a silent process. Otherwise this
// patience does.
std::chrono::milliseconds patience(const CheckpointConfig& config) {
  return config.async ? std::chrono::milliseconds::max() : std::chrono::minutes(1);
}

std::string folder_note(const std::string& attempt, int rank) {
  return str(attempt, "/folder/", rank);
}
std::string part_note(const std::string& attempt, int rank) { return str(attempt, "/part/", rank); }

// Returns the note in which a process reports its part:
// {"files": {NAME: [[offset, size, crc], ...]}}, or {"error": KIND, "message": TEXT}.
std::string note_of(const WrittenChunks& written) {
  json files = json::object();
  for (const auto& [name, chunks] : written) {
    json list = json::array();
    for (const FileChunk& chunk : chunks)
      list.push_back({chunk.offset, chunk.sum.size, chunk.sum.crc});
    files[name] = std::move(list);
  }
  return json{{"files", std::move(files)}}.dump();
}

std::string note_of(const std::exception& error) {
  const Failure failure = describe_failure(error);
  return json{{"error", failure.kind}, {"message", failure.message}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

// Returns the chunks in a note of the process `name`, or throws the error in it.
WrittenChunks chunks_in(const std::string& note, const std::string& name) {
  const json fields = json::parse(note);
  if (fields.contains("error")) {
    throw Error(fields.at("error").get<ErrorKind>(),
                str(name, ": ", fields.at("message").get<std::string>()));
  }
  WrittenChunks written;
  for (const auto& [file, list] : fields.at("files").items()) {
    std::vector<FileChunk>& chunks = written[file];
    for (const json& chunk : list) {
      chunks.push_back({chunk.at(0).get<uint64_t>(),
                        {chunk.at(1).get<uint64_t>(), chunk.at(2).get<uint32_t>()}});
    }
  }
  return written;
}

// Calls mark_saving() for the time of a block.
class SaveNote {
 public:
  explicit SaveNote(Processes& processes) : processes_(processes) { processes.mark_saving(true); }
  ~SaveNote() { processes_.mark_saving(false); }
  SaveNote(const SaveNote&) = delete;
  SaveNote& operator=(const SaveNote&) = delete;

 private:
  Processes& processes_;
};

}  // namespace

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

WrittenChunks DividedFiles::write(const fs::path& folder, const CheckpointSnapshot& snapshot,
                                  bool with_headers) const {
  WrittenChunks written;
  for_each_tensor_file(layout_, snapshot, dtype_, [&](const CheckpointFile& mine) {
    const SafetensorsLayout& file = files_.at(mine.name);
    std::vector<std::pair<uint64_t, const TensorToWrite*>> places;
    for (const TensorToWrite& tensor : mine.tensors)
      places.emplace_back(file.offset_of(tensor), &tensor);
    std::sort(places.begin(), places.end());
    ChunkWriter writer(folder / mine.name);
    if (with_headers) {
      writer.write(0, file.length());
      writer.write(file.length().size(), file.header());
    }
    for (const auto& [offset, tensor] : places) {
      writer.write(offset,
                   {static_cast<const char*>(tensor->data), SafetensorsLayout::size_of(*tensor)});
    }
    writer.finish();
    written[mine.name] = writer.chunks();
  });
  return written;
}

std::map<std::string, ManifestEntry> DividedFiles::join(
    const std::vector<WrittenChunks>& parts) const {
  std::map<std::string, ManifestEntry> sums;
  for (const auto& [name, file] : files_) {
    std::vector<FileChunk> chunks;
    for (const WrittenChunks& part : parts) {
      const std::vector<FileChunk>& more = part.at(name);
      chunks.insert(chunks.end(), more.begin(), more.end());
    }
    const FileSum sum = joined_sum(std::move(chunks), file.file_size(), name);
    sums[name] = {sum.size, sum.crc};
  }
  return sums;
}

CheckpointWriters find_writers(Processes& processes, const OptimizerShards& shards,
                               const RunFolder& run) {
  if (!shards.is_divided()) return {};
  // The trial lies in an unfinished checkpoint, so the next start removes what a kill leaves.
  const CheckpointWriters found =
      CheckpointWriters::find(processes, run.unfinished_checkpoint(0, random_id()));
  const int writers = 1 + static_cast<int>(found.others().size());
  if (writers < processes.count() && processes.is_first())
    log_note(str(writers, " of ", processes.count(),
                 " processes write checkpoints: the others do not see ", run.path().string(),
                 ", cannot write there, or its file system mixes up what several processes write "
                 "to one file; rank 0 writes what they send, and keeps it in memory meanwhile"));
  return found;
}

SharedSave::SharedSave(Processes& processes, OptimizerShards& shards, CheckpointWriters writers,
                       const RunFolder& run, const CheckpointTexts& texts,
                       const ParameterLayout& layout, const CheckpointConfig& config)
    : processes_(processes),
      shards_(shards),
      writers_(std::move(writers)),
      run_(run),
      texts_(texts),
      layout_(layout),
      config_(config) {
  if (!writers_.others().empty()) files_.emplace(layout, shards.all_buffers(), config.dtype);
}

std::optional<std::string> SharedSave::new_attempt(bool is_wanted) const {
  // The name becomes a part of the folder's name, so it is unique among all attempts of all runs.
  // If rank 0 writes alone, any name will do.
  std::string name = is_wanted ? "alone" : "";
  if (is_wanted && files_ && processes_.is_first()) name = random_id();
  name = shards_.broadcast_text(name);
  return name.empty() ? std::nullopt : std::optional(name);
}

CheckpointSnapshot SharedSave::snapshot(const TrainingState& state, const Parameters& parameters,
                                        const Optimizer& optimizer) const {
  return {state, shards_.collect_masters(parameters, writers_),
          shards_.collect(optimizer, writers_)};
}

void SharedSave::write(const std::string& attempt, const CheckpointSnapshot& snapshot) const {
  const SaveNote note(processes_);
  if (!files_) {
    write_checkpoint(run_, texts_, layout_, snapshot, config_);
  } else if (processes_.is_first()) {
    lead(attempt, snapshot);
  } else {
    follow(attempt, snapshot);
  }
}

void SharedSave::call_off(const std::string& attempt) const { tell_folder(attempt, ""); }

void SharedSave::tell_folder(const std::string& attempt, const std::string& folder) const {
  for (const int rank : writers_.others())
    processes_.leave_note(folder_note(attempt, rank), folder);
}

void SharedSave::lead(const std::string& attempt, const CheckpointSnapshot& snapshot) const {
  bool is_told = false;
  try {
    write_checkpoint(run_, run_.unfinished_checkpoint(snapshot.state.step, attempt), texts_,
                     snapshot.state, config_, files_->bytes(), [&](const fs::path& folder) {
                       files_->create(folder);
                       const std::string path = fs::absolute(folder).string();
                       tell_folder(attempt, path);
                       is_told = true;
                       return write_with_others(attempt, folder, snapshot);
                     });
  } catch (...) {
    if (!is_told) call_off(attempt);
    throw;
  }
}

std::map<std::string, ManifestEntry> SharedSave::write_with_others(
    const std::string& attempt, const fs::path& folder, const CheckpointSnapshot& snapshot) const {
  std::vector<WrittenChunks> parts;
  // write_checkpoint() removes the folder after an error, so the error must wait until all have
  // written.
  std::exception_ptr failure;
  const auto add = [&](const std::function<WrittenChunks()>& part) {
    try {
      parts.push_back(part());
    } catch (const ProcessLost&) {
      throw;
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  add([&] { return files_->write(folder, snapshot, /*with_headers=*/true); });
  for (const int rank : writers_.others()) {
    const std::string name = processes_.name_of(rank);
    const Activity waiting("waiting for the part of a checkpoint that is written by", name);
    add([&] {
      return chunks_in(processes_.take_note(part_note(attempt, rank), rank, patience(config_)),
                       name);
    });
  }
  if (failure) std::rethrow_exception(failure);
  return files_->join(parts);
}

void SharedSave::follow(const std::string& attempt, const CheckpointSnapshot& snapshot) const {
  const int rank = processes_.rank();
  std::string note;
  try {
    const std::string folder =
        processes_.take_note(folder_note(attempt, rank), /*from=*/0, patience(config_));
    if (folder.empty()) return;
    note = note_of(files_->write(folder, snapshot, /*with_headers=*/false));
  } catch (const ProcessLost&) {
    throw;
  } catch (const std::exception& error) {
    note = note_of(error);
  }
  processes_.leave_note(part_note(attempt, rank), note);
}

}  // namespace lmtrain
