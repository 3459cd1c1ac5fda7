// The tables of a report as HTML: what came of each run, which settings differ, what seeds tell,
// what happened. All text of runs is escaped.
#pragma once

#include <string>
#include <vector>

#include "report/runs/run_record.h"

namespace lmtrain {

// A row a run: state, losses, steps, tokens, time, parameters, memory, checkpoint.
std::string summary_table(const std::vector<RunRecord>& runs);
// Sentences about what could not be read; empty where all could.
std::string notes_list(const std::vector<RunRecord>& runs);
// A row a setting, a column a run. A sentence where there is one run, or none differs.
std::string settings_section(const std::vector<RunRecord>& runs);
// The means of groups of runs that differ in their seed alone, and the differences between groups,
// seed by seed. Empty where no two runs form a group.
std::string seeds_section(const std::vector<RunRecord>& runs);
// Empty where nothing happened.
std::string events_section(const std::vector<RunRecord>& runs);
// A row a prompt and evaluation: what the model wrote. Empty where there are none.
std::string samples_section(const std::vector<RunRecord>& runs);
// The whole config of each run.
std::string configs_section(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
