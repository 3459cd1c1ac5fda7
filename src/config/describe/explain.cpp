// `config explain`: what a setting means, in words for a terminal.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "config/describe/catalog.h"
#include "config/describe/describe.h"
#include "config/gone_settings.h"

namespace lmtrain {
namespace {

std::string explained(const SettingsCatalog::Entry& entry) {
  const Setting& setting = *entry.setting;
  std::string out = entry.key + "\n  " + setting.meaning + "\n";
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) out += std::string("  ") + label + text + "\n";
  };
  line("takes:   ", describe_allowed(setting));
  if (setting.kind != SettingKind::kAccepted) line("default: ", describe_default(setting));
  line("used if: ", describe_use(setting));
  line("source:  ", setting.source);
  return out;
}

bool inside_section(const std::string& key, const std::string& section) {
  return section.empty() || key.starts_with(section + ".") || key.starts_with(section + "[].");
}

// "/data/train/0/weight", as error messages write it, is "data.train[].weight" here.
std::string catalog_key(const std::string& typed) {
  std::string dotted = typed;
  if (dotted.starts_with('/')) {
    dotted.erase(0, 1);
    std::replace(dotted.begin(), dotted.end(), '/', '.');
  }
  std::string key;
  for (size_t begin = 0; begin <= dotted.size();) {
    const size_t end = std::min(dotted.find('.', begin), dotted.size());
    const std::string part = dotted.substr(begin, end - begin);
    const bool is_index =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    key += is_index ? "[]" : (begin == 0 ? "" : ".") + part;
    begin = end + 1;
  }
  return key;
}

}  // namespace

std::string explain_setting(const std::string& key) {
  const std::string dotted = catalog_key(key);
  const SettingsCatalog catalog;
  std::string out;
  for (const SettingSection& section : catalog.config().sections()) {
    if (section.key == dotted) out = section.key + "\n  " + section.meaning + "\n";
  }
  std::vector<std::string> keys;
  for (const SettingsCatalog::Entry& entry : catalog.entries()) {
    keys.push_back(entry.key);
    if (entry.key != dotted && !inside_section(entry.key, dotted)) continue;
    if (!out.empty()) out += "\n";
    out += explained(entry);
  }
  if (!out.empty()) return out;

  if (const GoneSetting* gone = gone_setting(dotted))
    throw Error(ErrorKind::kUsage, std::string(gone->sentence));
  // A dotted key is compared as a whole first: its last part may stand in several sections.
  std::string near;
  if (dotted.find('.') != std::string::npos) near = nearest_word(dotted, keys);
  if (near.empty()) near = nearest_key(dotted, "", catalog.config());
  throw Error(ErrorKind::kUsage, "there is no setting \"" + key + "\"" +
                                     (near.empty() ? "" : "; did you mean \"" + near + "\"?") +
                                     " (`config explain` without a key explains all)");
}

}  // namespace lmtrain
