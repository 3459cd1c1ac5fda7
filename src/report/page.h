// A report as one HTML page that needs no other file and no network: tables, curves as SVG, and the
// figures with a script that draws the curves anew as the reader chooses. Its own content security
// policy forbids it to load anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

// Every page begins with this, which tells it from files of others.
inline constexpr std::string_view kPageBeginning = "<!doctype html>\n<!-- lmtrain report -->\n";

// Returns how many points (buckets of read_run_record()) a curve may have so that a page of so many
// runs stays small: from 300 to 2000.
size_t most_buckets(size_t num_runs);

// Returns the page, which names the time of the call. Requires at least one run, and that each has
// its RunRecord::label.
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace lmtrain
