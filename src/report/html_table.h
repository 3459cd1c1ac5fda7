// Pieces of the page that tables and sections are made of.
#pragma once

#include <string>
#include <vector>

#include "report/runs/run_record.h"

namespace lmtrain {

// A table in a box that scrolls sideways. All cells are HTML: the caller escapes text of runs.
class HtmlTable {
 public:
  HtmlTable(std::vector<std::string> header) : header_(std::move(header)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // `name` is the class of the table.
  std::string html(const std::string& name) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

std::string section(const std::string& title, const std::string& content);
// The label of run i behind a piece of its line; its folder is the title.
std::string run_name(const RunRecord& run, size_t i);

}  // namespace lmtrain
