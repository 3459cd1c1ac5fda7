#include "cli/words/manual.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "cli/words/command_line.h"
#include "cli/words/roff.h"

namespace lmtrain {
namespace {

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string bold(const std::string& text) { return "\\fB" + roff_code(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff_code(text) + "\\fR"; }

// Returns the name that --help gives to the argument, in capitals: CONFIG.
std::string argument_name(const CLI::Option& option) { return upper_case(option.get_name()); }

bool is_repeated(const CLI::Option& option) {
  return option.get_expected_max() >= CLI::detail::expected_max_vector_size;
}

// An item for each argument and option of `command`.
std::string options_of(const CLI::App& command) {
  std::string text;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : command.get_options()) {
      if (option->nonpositional() == positional) continue;
      std::vector<std::string> names;
      for (const std::string& name : option->get_snames()) names.push_back(bold("-" + name));
      for (const std::string& name : option->get_lnames()) names.push_back(bold("--" + name));
      if (positional) names.push_back(italic(argument_name(*option)));
      text += ".TP\n" + join(names, ", ");
      const bool takes_value = option->get_type_size() != 0;
      if (!positional && takes_value) text += " " + italic(option->get_type_name());
      if (is_repeated(*option)) text += " ...";
      text += "\n" + roff_text(option->get_description());
      if (takes_value && !option->get_default_str().empty())
        text += roff_text(" (default: ") + roff_code(option->get_default_str()) + ")";
      if (!positional && option->get_required()) text += " (required)";
      text += "\n";
    }
  }
  return text;
}

// "lmtrain config [OPTIONS] show", for a command without a synopsis in the prose.
std::string usage_of(const CLI::App& command) {
  std::string text = ".PP\n" + bold("lmtrain " + command.get_name()) + " [OPTIONS]";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->nonpositional())
      text += " " + italic(argument_name(*option)) + (is_repeated(*option) ? "..." : "");
  }
  return text + "\n";
}

// The lines of the first fenced block that begin "lmtrain NAME", with the indented ones below each.
std::vector<std::string> synopsis_lines(const std::vector<MarkdownSection>& sections,
                                        const std::string& name) {
  std::vector<std::string> found;
  for (const MarkdownSection& section : sections) {
    bool fenced = false, taken = false;
    for (const std::string& line : section.lines) {
      if (line.starts_with("```")) {
        if (fenced) return found;
        fenced = true;
      } else if (fenced) {
        if (!line.starts_with(' ')) taken = line.starts_with("lmtrain " + name + " ");
        if (taken) found.push_back(line);
      }
    }
  }
  return found;
}

const MarkdownSection* section_named(const std::vector<MarkdownSection>& sections,
                                     const std::string& name) {
  for (const MarkdownSection& section : sections) {
    if (section.heading == name) return &section;
  }
  return nullptr;
}

std::string page_name(const std::string& command) {
  return command.empty() ? "lmtrain" : "lmtrain-" + command;
}

std::string page_head(const std::string& command, const std::string& version,
                      const std::string& description) {
  const std::string name = page_name(command);
  return str(".TH ", roff_code(upper_case(name)), " 1 \"\" \"lmtrain ", version,
             "\" \"Commands of lmtrain\"\n.nh\n.ad l\n.SH NAME\n", roff_code(name), " \\- ",
             roff_text(description), "\n");
}

std::string reference_to(const std::string& command) { return bold(page_name(command)) + "(1)"; }

std::string see_also(const CLI::App& app, const std::string& this_command) {
  std::vector<std::string> references;
  if (!this_command.empty()) references.push_back(reference_to(""));
  for (const CLI::App* other : shown_commands(app)) {
    if (other->get_name() != this_command) references.push_back(reference_to(other->get_name()));
  }
  return ".SH SEE ALSO\n" + join(references, ",\n") + "\n";
}

ManualPage command_page(const CLI::App& app, const CLI::App& command, const std::string& version,
                        const std::vector<MarkdownSection>& sections) {
  const std::string& name = command.get_name();
  std::string text = page_head(name, version, command.get_description()) + ".SH SYNOPSIS\n";
  const std::vector<std::string> synopsis = synopsis_lines(sections, name);
  if (synopsis.empty()) {
    text += usage_of(command);
  } else {
    text += ".EX\n";
    for (const std::string& line : synopsis) text += roff_code(line) + "\n";
    text += ".EE\n";
  }
  if (const MarkdownSection* section = section_named(sections, name))
    text += ".SH DESCRIPTION\n" + roff_of_markdown(section->lines);
  text += ".SH OPTIONS\n" + options_of(command);
  for (const CLI::App* below : shown_commands(command)) {
    text += str(".SS ", roff_code(str("lmtrain ", name, " ", below->get_name())), "\n",
                roff_text(below->get_description()), "\n", options_of(*below));
  }
  return {page_name(name) + ".1", text + see_also(app, name)};
}

bool is_command(const CLI::App& app, const std::string& name) {
  const std::vector<const CLI::App*> commands = shown_commands(app);
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == name; });
}

ManualPage program_page(const CLI::App& app, const std::string& version,
                        const std::vector<MarkdownSection>& sections) {
  std::string description = app.get_description();
  description = description.substr(0, description.find_last_not_of('.') + 1);
  // man(1) wants "lmtrain - does something", without the name again.
  const std::string name = "lmtrain ";
  if (description.starts_with(name)) description.erase(0, name.size());
  std::string text = page_head("", version, description);
  text += str(".SH SYNOPSIS\n", bold("lmtrain"), " ", italic("COMMAND"), " [OPTIONS] ...\n.br\n",
              bold("lmtrain --version"), " | ", bold("--help"), "\n");
  if (sections.size() > 1) text += ".SH DESCRIPTION\n" + roff_of_markdown(sections[1].lines);
  text += ".SH COMMANDS\n";
  for (const CLI::App* command : shown_commands(app))
    text += str(".TP\n", reference_to(command->get_name()), "\n",
                roff_text(command->get_description()), "\n");
  text += ".SH OPTIONS\n" + options_of(app);
  for (size_t i = 2; i < sections.size(); ++i) {
    const std::string& heading = sections[i].heading;
    if (is_command(app, heading)) continue;
    // The usual name of that section (man-pages(7)).
    const std::string title = heading == "Exit codes" ? "EXIT STATUS" : upper_case(heading);
    text += ".SH " + roff_text(title) + "\n" + roff_of_markdown(sections[i].lines);
  }
  return {page_name("") + ".1", text + see_also(app, "")};
}

}  // namespace

std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& version,
                                     const std::string& prose) {
  const std::vector<MarkdownSection> sections = markdown_sections(prose);
  std::vector<ManualPage> pages = {program_page(app, version, sections)};
  for (const CLI::App* command : shown_commands(app))
    pages.push_back(command_page(app, *command, version, sections));
  return pages;
}

}  // namespace lmtrain
