// The tables of a report as HTML: what came of each run, which settings differ, what seeds tell,
// what happened. All text of runs is escaped.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// Returns a table with a row for each run: state, losses, steps, tokens, time, parameters, memory,
// device, numbers of events, checkpoint. A sentence below says how the losses are measured.
std::string summary_table(const std::vector<RunRecord>& runs);
// Returns RunRecord::notes of all runs as a list; an empty text where there are none.
std::string notes_list(const std::vector<RunRecord>& runs);
// Returns a section with a row for each setting that differs and a column for each run. Where none
// differs a sentence says so. The text is empty where there is one run.
std::string settings_section(const std::vector<RunRecord>& runs);
// Returns a section with the means of groups of runs that differ in their seed alone, and the
// differences between groups, seed by seed. The text is empty where no two runs form a group.
std::string seeds_section(const std::vector<RunRecord>& runs);
// Returns a section with RunEvents::events of all runs; an empty text where nothing happened.
std::string events_section(const std::vector<RunRecord>& runs);
// Returns a section with what the model wrote at each evaluation, a row for each prompt; an empty
// text where there are no samples.
std::string samples_section(const std::vector<RunRecord>& runs);
// Returns a section with the whole config of each run; an empty text where none could be read.
std::string configs_section(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
