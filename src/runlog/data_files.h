// Keeps a list of the files that a run's data are made from, with size and modification time
// (data_files.json, docs/formats/run_folder.md), and how much text they hold (data_totals.json). A
// resume uses the list to name files that have changed. The fingerprint of the data, not this list,
// decides whether the run can go on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "batching/plan_summary.h"
#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "prepare/prepare.h"

namespace lmtrain {

// Replaces the list of `run` by the present files of data.train, data.eval and the given tokenizer.
// When files are missing, or the list cannot be written, the old list stays, and a warning says so.
// Throws Error(kIo) when the run folder is gone.
void record_data_files(const RunFolder& run, const Config& config);

// Makes data_totals.json of `run` (formats/data_totals.h) say the totals of its data. `sources` are
// the sources of its order of data. Throws Error(kIo).
void record_data_totals(const RunFolder& run, const PreparedData& data,
                        const std::vector<SourceSummary>& sources);

// Logs a warning that names files which differ from the list, if there are any. Their text is then
// read again, which may take long, before it is known whether the run can go on. Without a list
// there is no warning. Throws the errors of list_source_files() (text/sources.h).
void warn_of_changed_files(const RunFolder& run, const Config& config);

// Throws Error(kData) that names the files, when the list alone tells that the text has changed: a
// text file (.txt, .md) that is one document has another size. Throws no such error without a list,
// or when only the text can tell. Throws the errors of list_source_files().
void refuse_changed_text(const RunFolder& run, const Config& config);

// Throws Error(kData) when two fingerprints of data differ, and names the files that have changed.
// `recorded` is the fingerprint with which the checkpoint or trial in the folder `trained` was
// trained. `fingerprint` belongs to the data now prepared from the files of `config`.
void require_same_data(const RunFolder& run, const std::filesystem::path& trained,
                       const std::string& recorded, const Config& config,
                       const std::string& fingerprint);

}  // namespace lmtrain
