// Pieces of the page that tables and sections are made of.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace lmtrain {

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

}  // namespace lmtrain
