// Makes a report: one HTML page with tables, curves as SVG, and the figures with a script that
// draws the curves anew as the reader chooses. The page needs no other file and no network; its
// content security policy forbids it to load anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// All functions return HTML, and escape all text of runs.

// Returns a table with a row for each run: state, losses, steps, tokens, time, parameters, memory,
// device, numbers of events, checkpoint. A sentence below says how the losses are measured.
std::string summary_table(const std::vector<RunRecord>& runs);
// Returns RunRecord::notes of all runs as a list; empty if there are none.
std::string notes_list(const std::vector<RunRecord>& runs);
// Returns a section with a row for each setting that differs and a column for each run, or a
// sentence that none differs; empty for one run.
std::string settings_section(const std::vector<RunRecord>& runs);
// Returns a section with the means of groups of runs that differ only in their seed, and the
// differences between groups, seed by seed; empty if no two runs form a group.
std::string seeds_section(const std::vector<RunRecord>& runs);
// Returns a section with RunEvents::events of all runs; empty if there are none.
std::string events_section(const std::vector<RunRecord>& runs);
// Returns a section with the samples of each evaluation, a row for each prompt; empty if there are
// none.
std::string samples_section(const std::vector<RunRecord>& runs);
// Returns a section with the whole config of each run; empty if no config could be read.
std::string configs_section(const std::vector<RunRecord>& runs);

// ---- The page ----

// Every page begins with this text, and so lmtrain knows its own pages.
inline constexpr std::string_view kPageBeginning = "<!doctype html>\n<!-- lmtrain report -->\n";

// The style and the script of every page: page.css, and page_*.js one after another. CMake writes
// them into page_files.cpp.
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;

// Returns the most buckets of a curve (read_run_record()) with which a page of `num_runs` runs
// stays small: 300 to 2000.
size_t most_buckets(size_t num_runs);

// Returns the page, which names the time of the call. Requires at least one run, and
// RunRecord::label of each run.
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
