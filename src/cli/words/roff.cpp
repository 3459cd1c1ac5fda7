#include "cli/words/roff.h"

#include <sstream>

#include "base/text.h"

namespace lmtrain {
namespace {

bool is_fence(const std::string& line) { return line.starts_with("```"); }

std::string escaped(std::string_view text, bool code) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '-':
        out += code ? "\\-" : "-";
        break;
      case '\'':
        out += code ? "\\(aq" : "'";
        break;
      default:
        out += c;
    }
  }
  // A line that begins so would be a request.
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

// Paragraphs and cells: code and bold text are bold, of a link stays what is read.
std::string inline_text(const std::string& text) {
  std::string out, plain;
  const auto flush = [&] {
    if (!plain.empty()) out += out.empty() ? roff_text(plain) : escaped(plain, false);
    plain.clear();
  };
  size_t at = 0;
  while (at < text.size()) {
    const auto between = [&](std::string_view mark) -> std::string {
      if (text.compare(at, mark.size(), mark) != 0) return "";
      const size_t end = text.find(mark, at + mark.size());
      return end == std::string::npos ? "" : text.substr(at + mark.size(), end - at - mark.size());
    };
    if (const std::string code = between("`"); !code.empty()) {
      flush();
      out += "\\fB" + escaped(code, true) + "\\fR";
      at += code.size() + 2;
    } else if (const std::string bold = between("**"); !bold.empty()) {
      flush();
      const std::string word = bold.front() == '`' ? bold.substr(1, bold.size() - 2) : bold;
      out += "\\fB" + escaped(word, bold.front() == '`') + "\\fR";
      at += bold.size() + 4;
    } else if (text[at] == '[' && text.find("](", at) != std::string::npos) {
      const size_t middle = text.find("](", at), end = text.find(')', middle);
      flush();
      std::string words = inline_text(text.substr(at + 1, middle - at - 1));
      const std::string target = text.substr(middle + 2, end - middle - 2);
      if (target.find("://") != std::string::npos) words += " <" + escaped(target, true) + ">";
      out += words;
      at = end == std::string::npos ? text.size() : end + 1;
    } else {
      if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == '|') ++at;
      plain += text[at++];
    }
  }
  flush();
  return out;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// "| a | b |" -> "a", "b"; a bar after a backslash or in code is part of its cell.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::string cell;
  bool code = false;
  for (size_t i = 1; i < row.size(); ++i) {
    if (row[i] == '`') code = !code;
    if (row[i] == '|' && !code && row[i - 1] != '\\') {
      cells.push_back(trimmed(cell));
      cell.clear();
    } else {
      cell += row[i];
    }
  }
  return cells;
}

class Converter {
 public:
  void line(const std::string& line) {
    if (is_fence(line)) {
      end_block();
      out_ += fenced_ ? ".EE\n.RE\n" : ".PP\n.RS 4\n.EX\n";
      fenced_ = !fenced_;
    } else if (fenced_) {
      out_ += roff_code(line) + "\n";
    } else if (line.empty()) {
      end_block();
      table_rows_ = 0;
    } else if (line.starts_with('#')) {
      end_block();
      out_ += ".SS " + roff_text(trimmed(line.substr(line.find_first_not_of('#')))) + "\n";
    } else if (line.starts_with('|')) {
      table_row(cells_of(line));
    } else if (line.starts_with("- ")) {
      end_block();
      begin_ = ".IP \\(bu 2\n";
      block_ = line.substr(2);
    } else if (!line.starts_with("![")) {
      if (block_.empty()) begin_ = ".PP\n";
      block_ += (block_.empty() ? "" : " ") + trimmed(line);
    }
  }

  std::string finish() {
    end_block();
    return out_;
  }

 private:
  void end_block() {
    if (!block_.empty()) out_ += begin_ + inline_text(block_) + "\n";
    block_.clear();
  }

  // The first row names the columns, the second is of dashes.
  void table_row(const std::vector<std::string>& cells) {
    end_block();
    ++table_rows_;
    if (table_rows_ == 1) of_options_ = !cells.empty() && cells.front() == "option";
    if (table_rows_ <= 2 || of_options_ || cells.empty()) return;
    std::vector<std::string> rest;
    for (size_t i = 1; i < cells.size(); ++i) {
      if (!cells[i].empty()) rest.push_back(inline_text(cells[i]));
    }
    out_ += str(".TP\n", inline_text(cells.front()), "\n", rest.empty() ? "\\&" : join(rest, "; "),
                "\n");
  }

  std::string out_;
  std::string begin_, block_;  // the paragraph or item that is being read
  bool fenced_ = false;
  int table_rows_ = 0;
  bool of_options_ = false;
};

}  // namespace

std::string roff_text(std::string_view text) { return escaped(text, false); }
std::string roff_code(std::string_view text) { return escaped(text, true); }

std::vector<MarkdownSection> markdown_sections(const std::string& page) {
  std::vector<MarkdownSection> sections(1);
  std::istringstream lines(page);
  bool fenced = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_fence(line)) fenced = !fenced;
    const size_t level = fenced ? 0 : line.find_first_not_of('#');
    if (level == 1 || level == 2) {
      sections.push_back({trimmed(line.substr(level)), {}});
    } else {
      sections.back().lines.push_back(line);
    }
  }
  return sections;
}

std::string roff_of_markdown(const std::vector<std::string>& lines) {
  Converter converter;
  for (const std::string& line : lines) converter.line(line);
  return converter.finish();
}

}  // namespace lmtrain
