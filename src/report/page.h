// A report as one HTML page that needs no other file and no network: tables, curves as SVG, and the
// figures with a script that draws the curves anew as the reader chooses. Its own content security
// policy forbids it to load anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// The tables of a report as HTML: what came of each run, which settings differ, what seeds tell,
// what happened. All text of runs is escaped.

// Pieces of the page that tables and sections are made of.

// Makes a table in a box that scrolls sideways. All cells are HTML: the caller escapes text of
// runs. The first cell of each row is its heading.
class HtmlTable {
 public:
  HtmlTable(std::vector<std::string> header) : header_(std::move(header)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Returns the table, whose class is `name`.
  std::string html(const std::string& name) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns a <section> of `content` under the heading `title`. Both are HTML: the caller escapes.
std::string section(const std::string& title, const std::string& content);
// Returns HTML: a short piece of the line of run i as charts draw it, and its label, escaped. Its
// folder is the tooltip.
std::string run_name(const RunRecord& run, size_t i);

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

// Every page begins with this, which tells it from files of others.
inline constexpr std::string_view kPageBeginning = "<!doctype html>\n<!-- lmtrain report -->\n";

// The style and the script of every page: page.css, and page_*.js one after another. CMake makes
// page_files.cpp of them.
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;

// Returns how many points (buckets of read_run_record()) a curve may have so that a page of so many
// runs stays small: from 300 to 2000.
size_t most_buckets(size_t num_runs);

// Returns the page, which names the time of the call. Requires at least one run, and that each has
// its RunRecord::label.
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
