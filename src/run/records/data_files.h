// A run keeps a list of the files that its data are made from, with the size and the time of change
// of each (data_files.json, docs/formats/run_folder.md). With it a resume names the files that have
// changed. The list decides nothing: whether the data have changed is told by their fingerprint.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Replaces the list of `run` by one of the files of data.train and data.eval, and of the given
// tokenizer, as they are now. Where they are gone, or the list cannot be written, the old one
// stays, and a warning says so. Throws Error(kIo) when the folder of the run is gone.
void record_data_files(const RunFolder& run, const Config& config);

// Logs a warning that names files which are not as they are in the list, if there are any: the
// preparation will read the text again, which may take long, before it is known whether the run can
// go on. Throws what list_source_files() throws (corpus/sources/sources.h).
void warn_of_changed_files(const RunFolder& run, const Config& config);

// Throws Error(kData), naming the files, where the list tells without reading them that the text is
// another one: a text file (.txt, .md) that is one document has another size. Nothing is thrown
// where only the text can tell, or where there is no list. Throws what list_source_files() throws.
void refuse_changed_text(const RunFolder& run, const Config& config);

// Throws Error(kData), naming files that have changed, when `recorded`, the fingerprint of the data
// that the checkpoint or trial `trained` was trained on, is another one than `fingerprint`, that of
// the data prepared from the files of `config`.
void require_same_data(const RunFolder& run, const std::filesystem::path& trained,
                       const std::string& recorded, const Config& config,
                       const std::string& fingerprint);

}  // namespace lmtrain
