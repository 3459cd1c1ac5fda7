// Keeps a list of the files of a run's data, with size and modification time (data_files.json,
// docs/formats/run_folder.md), and the amount of their text (data_totals.json). A resume names the
// files that have changed by this list. But the fingerprint of the data decides whether the run can
// go on.
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
// If files are missing, or the list cannot be written, warns, and the old list stays. Throws
// Error(kIo) if the run folder is gone.
void record_data_files(const RunFolder& run, const Config& config);

// Writes the totals of the data into data_totals.json of `run` (formats/data_totals.h). `sources`
// are the sources of the order of data. Throws Error(kIo).
void record_data_totals(const RunFolder& run, const PreparedData& data,
                        const std::vector<SourceSummary>& sources);

// Warns of files that differ from the list, if there are any. Preparation reads their text again,
// which may take long, to find out whether the run can go on. Without a list does nothing. Throws
// the errors of list_source_files() (text/sources.h).
void warn_of_changed_files(const RunFolder& run, const Config& config);

// Throws Error(kUsage) if the tokenizer that the run was given is gone. The message has the command
// that puts it back from the newest checkpoint, which holds a copy.
void require_given_tokenizer(const RunFolder& run, const Config& config);

// Throws Error(kData) that names the files if the list proves that the text has changed: a text
// file (.txt, .md) that is one document has another size. Without a list, or without such a proof,
// passes. Throws the errors of list_source_files().
void refuse_changed_text(const RunFolder& run, const Config& config);

// Throws Error(kData) that names the changed files if two fingerprints differ: `recorded`, of the
// data on which the checkpoint or trial in the folder `trained` was trained, and `fingerprint`, of
// the data now prepared from the files of `config`.
void require_same_data(const RunFolder& run, const std::filesystem::path& trained,
                       const std::string& recorded, const Config& config,
                       const std::string& fingerprint);

}  // namespace lmtrain
