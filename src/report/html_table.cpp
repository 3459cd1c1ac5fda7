#include "report/html_table.h"

#include "base/text.h"
#include "report/html.h"
#include "report/static_chart.h"

namespace lmtrain {

std::string HtmlTable::html(const std::string& name) const {
  std::string text = str("<div class=\"scroll\"><table class=\"", name, "\"><thead><tr>");
  for (const std::string& cell : header_) text += str("<th scope=\"col\">", cell, "</th>");
  text += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : rows_) {
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? str("<th scope=\"row\">", row[i], "</th>") : str("<td>", row[i], "</td>");
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>";
}

std::string section(const std::string& title, const std::string& content) {
  return str("<section><h2>", title, "</h2>", content, "</section>\n");
}

std::string run_name(const RunRecord& run, size_t i) {
  return str("<span class=\"run\" title=\"", escape_html(run.folder.string()),
             "\"><svg class=\"swatch\" data-run=\"", i,
             "\" viewBox=\"0 0 22 8\"><path class=\"line ", run_classes(i),
             "\" d=\"M0 4H22\"/></svg>", escape_html(run.label), "</span>");
}

}  // namespace lmtrain
