#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "base/variables.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "eval/answer_requests.h"
#include "eval/evaluate.h"
#include "eval/evaluate_tasks.h"
#include "eval/json_record.h"
#include "eval/task_result.h"
#include "prepare/prepare.h"
#include "training/eval_data.h"

namespace lmtrain {
namespace {

constexpr const char* kCommand = "eval";

struct EvalArguments {
  TargetArguments target;
  LoadedModelOptions load;
  std::vector<std::string> data;
  std::string format;        // empty: the run's
  std::string text_field;    // empty: the run's
  std::string max_document;  // empty: the run's
  int64_t batch_tokens = 8192;
  std::string score;  // file of requests; empty: none
  std::string tasks;  // folder or file; empty: none
  bool json = false;
};

struct Target {
  ModelLocation location;
  LoadedModel model;
  std::optional<EvalData> held_out;  // of the run; nothing if --data gives documents
};

// Returns how to read --data: by the options, else as the run reads its text.
DataConfig format_of(const EvalArguments& options, const ModelLocation& target) {
  DataConfig format = text_reading_of(target);
  if (!options.format.empty()) format.format = value_named<DataFormat>(options.format).value();
  if (!options.text_field.empty()) format.text_field = options.text_field;
  if (!options.max_document.empty()) format.max_document = bytes_of(options.max_document).value();
  return format;
}

// --data, where a ${NAME} that the shell has left stands for a variable, as in a config.
std::vector<std::string> paths_of_data(const EvalArguments& options) {
  std::vector<std::string> paths;
  paths.reserve(options.data.size());
  for (const std::string& path : options.data) {
    ReplacedVariables replaced = replace_variables(path);
    if (replaced.unset) {
      throw Error(ErrorKind::kUsage,
                  str('"', path, "\" uses the environment variable ", *replaced.unset,
                      ", which is not set; export it or write the path out"));
    }
    paths.push_back(std::move(replaced.text));
  }
  return paths;
}

// Returns the message of a reader's error, with options for the settings that it names.
std::string with_options(std::string message) {
  for (const auto& [setting, option] :
       {std::pair<std::string_view, std::string_view>{"data.text_field", "--text-field"},
        {"data.format", "--format"},
        {"data.max_document", "--max-document"}}) {
    for (size_t at = 0; (at = message.find(setting, at)) != std::string::npos;)
      message.replace(at, setting.size(), option);
  }
  return message;
}

void tokenize_documents(const EvalArguments& options, const DataConfig& format,
                        const LoadedModel& loaded, const std::filesystem::path& shard) {
  const std::vector<std::string> paths = paths_of_data(options);
  try {
    tokenize_paths(paths, format, loaded.tokenizer_path(), loaded.add_bos(), loaded.add_eos(),
                   shard, loaded.num_threads());
  } catch (const Error& error) {
    throw Error(error.kind(), with_options(error.what()));
  }
}

void check_usage(const EvalArguments& options) {
  if (options.load.max_length > kLongestRows) {
    throw Error(ErrorKind::kUsage, str("--max-length ", options.load.max_length,
                                       " is too large; give a number up to ", kLongestRows));
  }
  const bool has_data = !options.data.empty();
  if (int{has_data} + int{!options.score.empty()} + int{!options.tasks.empty()} > 1) {
    throw Error(ErrorKind::kUsage,
                "--data, --score and --tasks are different evaluations; give one of them");
  }
  if (!options.score.empty() && options.json) {
    throw Error(ErrorKind::kUsage,
                "--score answers in JSON lines, one a request; --json does not go with it");
  }
  const bool is_held_out = !has_data && options.score.empty() && options.tasks.empty();
  if (is_held_out && !options.load.tokenizer_path.empty()) {
    throw Error(ErrorKind::kUsage,
                "--tokenizer goes with --data, --score and --tasks: a run's held-out text has the "
                "run's own tokenizer");
  }
  if (!has_data &&
      !(options.format.empty() && options.text_field.empty() && options.max_document.empty())) {
    throw Error(ErrorKind::kUsage,
                "--format, --text-field and --max-document say how --data is read; a run's "
                "held-out text is prepared already");
  }
}

ModelText text_of(const LoadedModel& loaded) {
  return {loaded.tokenizer(), loaded.add_bos(), loaded.max_length()};
}

int score_requests(const EvalArguments& options) {
  require_record_file(options.score);  // before the model is loaded
  LoadedModel loaded = load_target(options.target, options.load, kCommand);
  const ScoreRequests requests = read_score_requests(options.score, text_of(loaded));
  PercentLine progress("scoring", static_cast<int64_t>(requests.rows.size()));
  const auto keep_going = [&](size_t done) {
    progress.show(static_cast<int64_t>(done));
    return stop_signal() == 0 && std::cout.good();
  };
  answer_requests(loaded.model(), requests, options.batch_tokens, keep_going,
                  [](const std::string& line) {
                    log_progress_done();  // both may be lines of one terminal
                    std::cout << line << '\n';
                  });
  std::cout << std::flush;
  throw_if_stopped();
  return 0;
}

int evaluate_on_tasks(const EvalArguments& options) {
  std::vector<Task> tasks = read_tasks(options.tasks);  // before the model is loaded
  LoadedModel loaded = load_target(options.target, options.load, kCommand);
  std::vector<AskedTask> asked;
  asked.reserve(tasks.size());
  for (Task& task : tasks) asked.push_back(asked_task(text_of(loaded), std::move(task)));
  std::optional<std::vector<TaskResult>> results;
  {
    PercentLine progress("scoring", static_cast<int64_t>(count_rows(asked)));
    results = evaluate_tasks(loaded.model(), asked, options.batch_tokens, [&](size_t done) {
      progress.show(static_cast<int64_t>(done));
      return stop_signal() == 0;
    });
  }
  if (!results) throw StopRequested{stop_signal()};
  for (const TaskResult& task : *results) {
    if (task.truncated == 0) continue;
    log_note(str(task.name, ": the prompts of ", counted(task.truncated, "record"),
                 " were cut at their beginning to ", loaded.max_length(), " tokens"));
  }
  if (options.json) {
    nlohmann::ordered_json json = tasks_as_json(*results);
    json["target"] = options.target.path;
    loaded.add_source(json);
    print_json(json);
  } else {
    std::cout << tasks_as_text(*results) << std::flush;
  }
  return 0;
}

nlohmann::ordered_json figures_as_json(const EvalResult& result) {
  return {{"loss", result.loss()},
          {"perplexity", result.perplexity()},
          {"bits_per_byte", result.bits_per_byte()},
          {"tokens", result.tokens},
          {"bytes", result.bytes},
          {"documents", result.documents}};
}

void print_as_json(const Evaluation& evaluation, const std::string& target,
                   const LoadedModel& loaded) {
  nlohmann::ordered_json json = figures_as_json(evaluation.all);
  json["target"] = target;
  json["precision"] = loaded.precision();
  loaded.add_source(json);
  for (const EvalPart& set : evaluation.sets) json["sets"][set.name] = figures_as_json(set.result);
  print_json(json);
}

// Prints the figures of all documents in a column, then a row with the figures of each set.
void print_as_text(const Evaluation& evaluation, const std::string& precision) {
  const EvalResult& all = evaluation.all;
  std::cout << "loss           " << all.loss() << "\nperplexity     " << all.perplexity()
            << "\nbits per byte  " << all.bits_per_byte() << "\ntokens         " << all.tokens
            << "\nbytes          " << all.bytes << "\ndocuments      " << all.documents
            << "\nprecision      " << precision << "\n";
  for (const EvalPart& set : evaluation.sets) {
    std::cout << "set            " << set.name << "  loss " << set.result.loss() << "  perplexity "
              << set.result.perplexity() << "  bits per byte " << set.result.bits_per_byte()
              << "  tokens " << set.result.tokens << "  bytes " << set.result.bytes
              << "  documents " << set.result.documents << "\n";
  }
  std::cout << std::flush;
}

int evaluate_documents(const EvalArguments& options) {
  const auto load = [&](const ModelLocation& location) {
    LoadedModel model(location, options.load);
    std::optional<EvalData> held_out;
    if (options.data.empty()) held_out = eval_data_of(location, model.num_threads());
    return Target{location, std::move(model), std::move(held_out)};
  };
  Target target = with_located_model(options.target.path, load, options.target.request(kCommand));
  LoadedModel& loaded = target.model;

  // The run's own held-out documents, or those given.
  EvalOptions eval{loaded.max_length(), options.batch_tokens};
  EvalSets sets;
  std::optional<TemporaryFolder> folder;
  std::filesystem::path shard_path;
  if (!options.data.empty()) {
    folder.emplace();
    shard_path = folder->path() / "documents.bin";
    tokenize_documents(options, format_of(options, target.location), loaded, shard_path);
  } else {
    shard_path = target.held_out->shard;
    sets = target.held_out->sets;
    eval.token_budget = target.held_out->tokens;
  }
  const TokenShard shard(shard_path, /*verify_tokens=*/false);
  const auto result =
      evaluate(loaded.model(), shard, sets, eval, [] { return stop_signal() == 0; });
  if (!result) throw StopRequested{stop_signal()};
  if (!std::isfinite(result->all.nats)) {
    throw Error(ErrorKind::kNumeric, str("the loss of ", options.target.path,
                                         " is not finite: its weights are damaged or diverged"));
  }
  if (result->all.tokens == 0)
    throw Error(ErrorKind::kData, "the documents hold no target to predict; give some text");

  if (options.json) {
    print_as_json(*result, options.target.path, loaded);
  } else {
    print_as_text(*result, loaded.precision());
  }
  return 0;
}

int evaluate_model(const EvalArguments& options) {
  check_usage(options);
  if (!options.score.empty()) return score_requests(options);
  return options.tasks.empty() ? evaluate_documents(options) : evaluate_on_tasks(options);
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand(
      "eval",
      "Loss of a model over documents, its results on tasks, or log-likelihoods of given text");
  add_target(*command, options->target);
  command
      ->add_option("--data", options->data,
                   "Documents: files, folders, globs (default: the run's held-out text)")
      ->type_name("PATH")
      ->allow_extra_args(false)
      ->check(not_empty());
  command
      ->add_option("--format", options->format,
                   "How --data is read: auto, text, lines, jsonl, json, csv, tsv, parquet, arrow "
                   "or mds (default: as the "
                   "run's text, else auto)")
      ->type_name("FORMAT")
      ->check(format_of_text());
  command
      ->add_option("--text-field", options->text_field,
                   "The field or column that holds the text (default: the run's, else text)")
      ->type_name("NAME");
  command
      ->add_option("--max-document", options->max_document,
                   "Bytes that a document of --data may have (default: the run's, else 1GiB)")
      ->type_name("BYTES")
      ->check(bytes_above_zero());
  command
      ->add_option("--max-length", options->load.max_length,
                   "Targets of a window (default: the model's)")
      ->transform(integer_from(1));
  add_load_options(*command, options->load);
  command
      ->add_option("--batch-tokens", options->batch_tokens,
                   "Positions of a batch; changes no result")
      ->transform(integer_from(1))
      ->capture_default_str();
  command
      ->add_option(
          "--score", options->score,
          "Requests as JSON lines, {\"context\", \"continuation\"} or {\"text\"}, answered "
          "by lines {\"logprob\", \"is_greedy\", \"tokens\"}")
      ->type_name("FILE")
      ->check(not_empty());
  command
      ->add_option("--tasks", options->tasks,
                   "Tasks: a folder with a tasks.json, or one file of JSON lines in the format of "
                   "DCLM CORE")
      ->type_name("PATH")
      ->check(not_empty());
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback(
      [options, &action] { action = [options] { return evaluate_model(*options); }; });
}

}  // namespace lmtrain
