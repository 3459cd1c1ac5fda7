// docs/config.md, generated from the table of settings.
#include "config/describe.h"

namespace lmtrain {
namespace {

constexpr const char* kIntroduction = R"(# Configuration

<!-- Generated from src/config/config.h. Do not edit; after a change there run
     LMTRAIN_UPDATE_DOCS=1 build/test_config --gtest_filter='Reference.*' -->

A run is described by one JSON file. `//` and `/* */` comments are allowed; otherwise it is strict JSON: no comma before
a closing bracket, no key twice. Only `data.train` must be given. The smallest file is `{"data": {"train": ["corpus"]}}`.

- `lmtrain config explain KEY` says what a key means, `lmtrain config schema` prints a JSON Schema for editors (put
  `"$schema": "path/of/the/schema.json"` into the file), and `lmtrain config show FILE` prints the whole configuration with
  every default filled in. A note after a value says where it was given; keys that another setting switches off are unused.
- `--set key=value` changes a setting on the command line: `--set optimizer.lr=3e-4`,
  `--set 'sequence.schedule={"type":"natural"}'`. The value is JSON; a bare word is text. A value replaces what stood there
  as a whole. An item of a list is reached by its index: `--set data.train.0.weight=2`. The last one of several for a key holds.
  A key of transformers that lmtrain takes from a file and does not use, such as `model.torch_dtype`, is refused here.
- All errors of a file are reported together, each with file and line (or the `--set` it came from), JSON pointer, the value,
  what is allowed, and the known key nearest to an unknown one. The exit code is 2.
- A key that belongs to another variant, `optimizer.momentum` while `optimizer.type` is `adamw`, is checked, accepted and unused.

**Units.** A bare number in `every`, `warmup`, `decay` is steps; in keys named `tokens`, tokens; in `sample` and
`max_document`, bytes; in `max_time` and `timeout`, seconds. As text: `"500 steps"`; tokens `"10B"`, `"64Ki"` (K M B T are powers of 1000, Ki Mi Gi powers of 1024),
`"12345 tokens"`; bytes `"100MB"`, `"1GiB"`; `"2%"` of the run; time `"90s"`, `"30min"`, `"2h"`; `"1 epoch"`, `"0.5 epochs"`, passes over the training
text. `every: 0` is never.

**Paths** are relative to the current folder; `${VAR}` is replaced by the environment variable. The `config.json` of a run
holds absolute paths.

**Limits across settings.** `sequence.min_length <= sequence.max_length`, both powers of two for `bucket` and `pad`.
`batch.tokens` is a multiple of `sequence.max_length`; `batch.micro_tokens` is one too and divides `batch.tokens`.
`natural`, `grow_linear` and `grow_p2` need `bucket` or `pad`. One of `train.steps`, `train.tokens`, `train.epochs`, `train.time`: one in
the file replaces the default, two are an error, and `--set` of one clears the others. `model.hidden_size` is a multiple of
`num_attention_heads`, that of `num_key_value_heads`, and the width of a head is even. Restart trials,
`eval.early_stop` and `eval.tasks` need held-out text. With `precision` `fp8` both sizes of `model`, and the widths of queries and of keys with
values, are multiples of 16.

**`init_from`.** The defaults of `model` come from the folder's `config.json`, `tokenizer.model` from the folder: its `tokenizer.model`, else its `tokenizer.json`. A key of
`model` that is given and contradicts it is an error (`max_position_embeddings` excepted). Of a run folder the best
checkpoint is taken, and the run's own config names it. Weights know the ids of one tokenizer: a folder without
either, and a `tokenizer.model` given that is not the folder's, are errors unless `tokenizer.allow_mismatch` is true.

)";

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string row(const std::string& key, const Setting& setting) {
  std::string meaning = setting.meaning;
  if (!setting.used_key.empty()) meaning += " Used if " + describe_use(setting) + ".";
  if (!setting.source.empty()) meaning += " (" + setting.source + ")";
  return "| `" + key + "` | " + cell(describe_allowed(setting)) + " | " +
         cell(describe_default(setting)) + " | " + cell(meaning) + " |\n";
}

std::string section_around(const std::string& key) {
  const size_t dot = key.rfind('.', key.find('['));
  return dot == std::string::npos ? std::string() : key.substr(0, dot);
}

// The section's settings; what stands in objects inside them is listed with them.
std::string section_table(const SettingsCatalog& catalog, const std::string& section) {
  std::string out = "| Key | Takes | Default | Meaning |\n|---|---|---|---|\n";
  for (const SettingsCatalog::Entry& entry : catalog.entries()) {
    if (entry.setting->kind == SettingKind::kAccepted) continue;
    std::string of = section_around(entry.key);
    while (!of.empty() && !catalog.config().is_section(of)) of = section_around(of);
    if (of == section) out += row(entry.key, *entry.setting);
  }
  return out;
}

std::string accepted_keys(const SettingsCatalog& catalog) {
  std::string out =
      "Further keys of transformers' classes of such models are accepted and change nothing. "
      "Where values are listed, any other is an error:\nlmtrain computes nothing else.\n\n"
      "| Key | Accepted | Why "
      "|\n|---|---|---|\n";
  for (const SettingsCatalog::Entry& entry : catalog.entries()) {
    if (entry.setting->kind != SettingKind::kAccepted || !entry.key.starts_with("model.")) continue;
    out += "| `" + entry.key + "` | " + cell(describe_allowed(*entry.setting)) + " | " +
           cell(entry.setting->meaning) + " |\n";
  }
  return out;
}

}  // namespace

std::string config_reference_markdown() {
  const SettingsCatalog catalog;
  std::string out = kIntroduction;
  out += "## The run\n\n" + section_table(catalog, "");
  for (const SettingSection& section : catalog.config().sections()) {
    out += "\n## `" + section.key + "`\n\n" + section.meaning + "\n\n" +
           section_table(catalog, section.key);
    if (section.key == "model") out += "\n" + accepted_keys(catalog);
  }
  return out;
}

}  // namespace lmtrain
