// A SettingReader reads a tree of JSON into the structs, by the table of settings. It collects
// problems, one line each, and throws nothing, so that a person sees all errors of a file at once.
// A setting with a problem keeps its value and is marked as bad, so that checks across settings
// skip it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "config/json_reader.h"
#include "config/settings.h"

namespace lmtrain {

class SettingReader {
 public:
  enum class UnknownKeys { kError, kIgnore };
  explicit SettingReader(UnknownKeys unknown) : unknown_(unknown) {}

  // Reads `object` and all below it into the slots of `table`. `section` is the dotted key of
  // `object` in the table, and `pointer` its JSON pointer in messages; both are "" at the root. A
  // missing setting of `table` is no problem here, even if it must be given: check_config() reports
  // data.train.
  void read_section(const JsonNode& object, const SettingTable& table, const std::string& section,
                    const std::string& pointer);

  // Adds the problem "where: pointer: what". Does not mark a key as bad.
  void problem(const std::string& where, const std::string& pointer, const std::string& what);
  // Returns whether the setting with this dotted key had a problem.
  bool bad(const std::string& key) const { return bad_.contains(key); }
  // A check across settings calls this for a key that it has reported, so that later checks skip
  // it.
  void mark_bad(const std::string& key) { bad_.insert(key); }

  const ConfigOrigins& origins() const { return origins_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void read(const JsonNode& node, const Setting& setting, const std::string& pointer);
  bool read_null(const JsonNode& node, const Setting& setting);
  // Sets the variable of a slot that holds a T or an optional T. Leaves any other slot as it is.
  template <class T>
  static void store(const SettingSlot& slot, const T& value) {
    std::visit(
        [&](auto target) {
          using Target = decltype(target);
          if constexpr (std::is_same_v<Target, T*> || std::is_same_v<Target, std::optional<T>*>) {
            *target = value;
          }
        },
        slot);
  }
  // Stores a number that is in the range of the setting; any other number is a problem.
  template <class T>
  void store_number(const JsonNode& node, const Setting& setting, const std::string& pointer,
                    T number);
  void read_integer(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_number(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_text(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_choice(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_amount(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_accepted(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_training_duration(const JsonNode& node, const Setting& setting,
                              const std::string& pointer);
  // Reads each item as a setting of this kind, so that its range and message are the same.
  template <class T>
  void read_list(const JsonNode& node, const Setting& setting, const std::string& pointer,
                 SettingKind kind);
  void read_texts(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_sources(const JsonNode& node, const Setting& setting, const std::string& pointer);
  // Appends the sources of one list to `sources`, each with the name `set`.
  void read_source_list(const JsonNode& node, const Setting& setting, const std::string& pointer,
                        const std::string& set, std::vector<DataSourceConfig>& sources);
  void read_groups(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_rope_scaling(const JsonNode& node, const Setting& setting, const std::string& pointer);
  void read_rope_parameters(const JsonNode& node, const SettingTable& table,
                            const std::string& section, const std::string& pointer);
  // Reads an object inside a setting, by a table of its own. Returns where its keys were given.
  ConfigOrigins read_item(const JsonNode& node, const SettingTable& table, const Setting& setting,
                          const std::string& pointer);
  // Reads a setting that is such an object, by the table that `settings` binds to it. Keys that are
  // not given have their defaults.
  template <class Object>
  void read_object(const JsonNode& node, SettingTable (*settings)(Object&), const Setting& setting,
                   const std::string& pointer) {
    if (node.type != JsonNode::Type::kObject)
      return wrong(node, setting, pointer, "is not an object");
    Object object;
    read_item(node, settings(object), setting, pointer);
    if (!bad(setting.key)) store(setting.slot, object);
  }

  bool expand_path(const JsonNode& node, const std::string& pointer, std::string* path);
  void unknown_key(const JsonMember& member, const SettingTable& table, const std::string& section,
                   const std::string& pointer);
  // Adds a problem and marks the setting as bad. `meant` holds the probable meanings, each as JSON.
  void wrong(const JsonNode& node, const Setting& setting, const std::string& pointer,
             const std::string& what, const std::vector<std::string>& meant = {});

  UnknownKeys unknown_;
  bool is_of_run_ = false;  // the root is a run's own config.json
  // max_position_embeddings beside rope_scaling or rope_parameters, where it is a length.
  std::optional<int64_t> max_positions_;
  std::vector<std::string> problems_;
  size_t num_unknown_ = 0;  // keys
  std::set<std::string> bad_;
  ConfigOrigins origins_;
};

// Returns the text with each ${VAR} replaced. Returns nothing and sets `*problem`, the end of a
// sentence, when a variable is unset or not UTF-8, or a "${" has no "}".
std::optional<std::string> expand_variables(const std::string& text, std::string* problem);

}  // namespace lmtrain
