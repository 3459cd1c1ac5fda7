// The settings themselves, but for model_settings.cpp, optimizer_settings.cpp and, for what a run
// leaves behind, output_settings.cpp.

#include "config/settings.h"

namespace lmtrain {
namespace {

using Kind = SettingKind;
constexpr TrainingDuration::Unit kSteps = TrainingDuration::Unit::kSteps;
constexpr TrainingDuration::Unit kTokens = TrainingDuration::Unit::kTokens;
constexpr TrainingDuration::Unit kPercent = TrainingDuration::Unit::kPercent;
constexpr TrainingDuration::Unit kEpochs = TrainingDuration::Unit::kEpochs;
constexpr double kMaxLength = 1 << 24;
constexpr double kMaxTokens = 0x1p53;
constexpr double kMaxBatchTokens = 0x1p31 - 1;  // a position in a batch is an int32

void add_run(SettingTable& t, Config& c) {
  t.add("$schema", {}, "Names the JSON Schema, for editors. No effect.").as(Kind::kAccepted);
  t.add("digest", {},
        "Of a run's own config.json: the checksum of all its other keys, checked by resume and "
        "eval. No effect "
        "in other files.")
      .as(Kind::kAccepted);
  t.add("identity", {},
        "Of a run's own config.json: which run it is, and what it began from. No effect in other "
        "files.")
      .as(Kind::kAccepted);
  t.add("name", &c.name, "Name of the run; its folder is runs/<name> unless run_dir is given.")
      .as(Kind::kName)
      .default_is("the configuration file's stem");
  t.add("run_dir", &c.run_dir, "Folder of the run.").as(Kind::kPath).null_is("runs/<name>");
  t.add("seed", &c.seed,
        "Seed of initialisation and, unless data.seed is given, of the order of data.")
      .at_least(0);
  t.add("threads", &c.threads, "CPU threads.")
      .range(1, 4096)
      .null_is(
          "OMP_NUM_THREADS, else the processors this process may use, divided among the processes "
          "of the run that share them",
          "auto");
  t.add("device", &c.device, "Where to compute; auto: the best device present.").as(Kind::kDevice);
  t.add(
      "precision", &c.precision,
      "Format of the working weights and activations; master weights are always fp32. auto: bf16 "
      "where the device "
      "has it in hardware, else fp32. fp16: with dynamic loss scaling. fp8: as bf16, but the "
      "products "
      "with the layers' matrices take 8-bit operands; on NVIDIA GPUs of compute capability 8.9 or "
      "higher.");
  t.add(
      "compile", &c.compile,
      "How the model runs. eager: its source as it stands, for debugging; script: compiled "
      "TorchScript; graph: script and a captured CUDA graph per shape, where one can be captured. "
      "All give the same bits.");
  t.add("deterministic", &c.deterministic,
        "Only operators that give the same bits each time, also where slower.");
  t.add("init_from", &c.init_from,
        "A Hugging Face Llama folder, a checkpoint, or a run (its best checkpoint) to take the "
        "weights from, and from its "
        "config.json the defaults "
        "of model; optimizer, step and data begin at 0.")
      .as(Kind::kPath)
      .null_is("random weights");
  t.add("forecast", &c.forecast,
        "A folder of `lmtrain forecast`: the run writes down the held-out loss that is expected of "
        "it, and says how far it is off.")
      .as(Kind::kPath)
      .null_is("no forecast");
}

void add_data(SettingTable& t, DataConfig& c) {
  t.section("data", "The text to train on.");
  t.add("data.train", &c.train,
        "What to train on: files, folders and globs, each a path or {\"path\", \"weight\"}.")
      .must_be_given();
  t.add("data.eval", &c.eval,
        "What to evaluate on, in the same form, or an object of named sets of that form, such as "
        "{\"python\": \"a/**/*.py\", \"prose\": [\"b\"]}: figures are then those of all text, and "
        "of each set by its name. Every document counts once, whatever its weight.")
      .null_is("hold out eval_fraction of data.train");
  t.add("data.eval_fraction", &c.eval_fraction,
        "Share of each source held out for evaluation: documents chosen by a hash of their text, "
        "or pieces of documents where these are too few or too long. The share is raised, to a "
        "tenth "
        "at most, if it gives less than 64 KiB of text in all. Above 0, at least one piece. 0: "
        "none, and evaluations "
        "are skipped.")
      .below(0, 1)
      .used_if("data.eval", {"null"});
  t.add(
      "data.format", &c.format,
      "Format of the files; auto: by extension, else by what the file holds. text: a file is a "
      "document; lines: a line is one; jsonl: text_field of each line; json: of each element of an "
      "array, or an array of texts; csv, tsv, parquet, arrow, mds: the column text_field of each "
      "row; tokens: ids, in token files or in the rows of tables.");
  t.add("data.text_field", &c.text_field,
        "The field or column that holds the text, or the token ids where it is not the default.")
      .used_if("data.format", {DataFormat::kAuto, DataFormat::kJsonl, DataFormat::kJson,
                               DataFormat::kCsv, DataFormat::kTsv, DataFormat::kParquet,
                               DataFormat::kArrow, DataFormat::kMds, DataFormat::kTokens});
  t.add("data.on_bad_line", &c.on_bad_line,
        "What to do with a line of JSON lines that is broken, has half of a surrogate pair, or "
        "whose "
        "field is missing or no string. stop: end with exit code 3; skip: leave "
        "it out and count it, up to 0.1 % of the lines of data.train or data.eval (of fewer than "
        "1000 lines none).")
      .used_if("data.format", {DataFormat::kAuto, DataFormat::kJsonl});
  t.add("data.token_dtype", &c.token_dtype,
        "Type of the ids in token files that hold ids and nothing else. auto: uint32 for a "
        "vocabulary above 65536 pieces, else uint16; where the file could be either, it is an "
        "error; int64 in the bytes of an MDS shard.")
      .used_if("data.format", {DataFormat::kAuto, DataFormat::kMds, DataFormat::kTokens});
  t.add("data.max_document", &c.max_document,
        "Bytes of text that one document may have, or one line of JSON lines; a larger one is an "
        "error that names its file. A small compressed file may hold a very large document.")
      .as(Kind::kBytes)
      .range(1, 0x1p53)
      .used_if("data.format",
               {DataFormat::kAuto, DataFormat::kText, DataFormat::kLines, DataFormat::kJsonl,
                DataFormat::kJson, DataFormat::kCsv, DataFormat::kTsv, DataFormat::kParquet,
                DataFormat::kArrow, DataFormat::kMds, DataFormat::kTokens});
  t.add("data.cache_dir", &c.cache_dir,
        "Folder of token shards, keyed by a fingerprint of content, tokenizer and settings.")
      .as(Kind::kPath);
  t.add("data.shuffle", &c.shuffle, "false: documents in byte order of path, then position.");
  t.add("data.seed", &c.seed, "Seed of the order of data alone.").at_least(0).null_is("seed");
}

void add_sequence(SettingTable& t, SequenceConfig& c) {
  t.section("sequence", "How documents become rows. Lengths count targets.");
  t.add("sequence.max_length", &c.max_length, "Longest row; a power of two for bucket and pad.")
      .range(1, kMaxLength)
      .null_is("the recipe's: an eighth of a batch, 128 to 1024; with optimizer.lr given: 1024",
               "auto")
      .default_is("auto: by the tokens of the run; 1024 where optimizer.lr or init_from is given");
  t.add("sequence.min_length", &c.min_length,
        "Shortest row, at most max_length; a power of two for bucket and pad.")
      .range(1, kMaxLength);
  t.add("sequence.batching", &c.batching,
        "bucket: pieces of 2^k targets of one document; pad: whole documents, padded to a power of "
        "two; pack: "
        "documents packed, attention kept inside each; concat: one stream cut at max_length.");
  t.add("sequence.cut", &c.cut,
        "How bucket cuts. balanced: lengths drawn so that every bucket gets about the same tokens; "
        "longest: largest "
        "first.")
      .used_if("sequence.batching", {Batching::kBucket});
  t.section("sequence.schedule", "The lengths over the run.");
  t.add("sequence.schedule.type", &c.schedule.type,
        "constant: as they come; linear, root, step: a cap that grows, rounded down to "
        "max_length/2^j; natural, grow_linear, grow_p2: "
        "the order of the "
        "buckets (bucket and pad only).")
      .default_is("grow_p2; constant when batching is pack or concat")
      .from("Pouransari et al. 2024, Dataset Decomposition");
  t.add("sequence.schedule.cycles", &c.schedule.cycles,
        "How often the run goes from short to long.")
      .range(1, 1'000'000)
      .default_is("1; 4 where optimizer.lr or init_from is given")
      .used_if("sequence.schedule.type",
               {LengthScheduleType::kGrowLinear, LengthScheduleType::kGrowP2});
  t.add("sequence.schedule.duration", &c.schedule.duration,
        "When the cap has grown from min_length to max_length.")
      .in_units({kSteps, kTokens, kPercent, kEpochs}, kSteps)
      .used_if("sequence.schedule.type", {LengthScheduleType::kLinear, LengthScheduleType::kRoot});
  t.add("sequence.schedule.root_degree", &c.schedule.root_degree,
        "2: the cap grows as the square root of progress.")
      .range(1, 100)
      .used_if("sequence.schedule.type", {LengthScheduleType::kRoot})
      .from("Platanios et al. 2019, Competence-based Curriculum Learning");
  t.add("sequence.schedule.lengths", &c.schedule.lengths,
        "The caps: lengths[i] holds until boundaries[i].")
      .range(1, kMaxLength)
      .used_if("sequence.schedule.type", {LengthScheduleType::kStep});
  t.add("sequence.schedule.boundaries", &c.schedule.boundaries,
        "Where each of lengths ends, increasing; after the last, max_length.")
      .in_units({kSteps, kTokens, kPercent, kEpochs}, kSteps)
      .used_if("sequence.schedule.type", {LengthScheduleType::kStep});
}

void add_batch(SettingTable& t, BatchConfig& c) {
  t.section("batch", "How much one optimizer step sees.");
  t.add("batch.tokens", &c.tokens,
        "Positions an optimizer step, rows x length with padding, whatever the length; a multiple "
        "of "
        "sequence.max_length.")
      .as(Kind::kTokens)
      .range(1, kMaxBatchTokens)
      .null_is("the recipe's: by the tokens of the run; with optimizer.lr given: 65536", "auto")
      .default_is("auto: by the tokens of the run; 65536 where optimizer.lr or init_from is given");
  t.add("batch.micro_tokens", &c.micro_tokens,
        "Positions a micro-batch: a multiple of sequence.max_length that divides batch.tokens. "
        "Fewer "
        "are taken where memory does not hold them.")
      .as(Kind::kTokens)
      .range(1, kMaxBatchTokens)
      .null_is("about 8192 on a CPU, on a GPU what its memory holds, up to 65536", "auto");
}

void add_schedules(SettingTable& t, Config& config) {
  LrScheduleConfig& c = config.lr_schedule;
  t.section("lr_schedule", "The learning rate over the run: its warm-up, its peak and its decay.");
  t.add("lr_schedule.type", &c.type,
        "How it falls after the warm-up; wsd holds the peak, then falls over decay.")
      .default_is("linear; cosine where optimizer.lr or init_from is given");
  t.add("lr_schedule.warmup", &c.warmup, "How long it rises.")
      .in_units({kSteps, kTokens, kPercent}, kSteps)
      .default_is("2%; 1% where optimizer.lr or init_from is given");
  t.add("lr_schedule.warmup_shape", &c.warmup_shape, "How it rises.");
  t.add("lr_schedule.warmup_start", &c.warmup_start, "Where it begins, as a share of the peak.")
      .range(0, 1);
  t.add("lr_schedule.min_ratio", &c.min_ratio, "Where it ends, as a share of the peak.")
      .range(0, 1)
      .default_is("0; 0.1 where optimizer.lr or init_from is given")
      .used_if("lr_schedule.type", {LrScheduleType::kCosine, LrScheduleType::kLinear,
                                    LrScheduleType::kSqrt, LrScheduleType::kWsd});
  t.add("lr_schedule.decay", &c.decay, "The last part of the run, in which it falls.")
      .in_units({kSteps, kTokens, kPercent}, kSteps)
      .used_if("lr_schedule.type", {LrScheduleType::kWsd});
  t.add("lr_schedule.decay_shape", &c.decay_shape, "How it falls there.")
      .used_if("lr_schedule.type", {LrScheduleType::kWsd})
      .from("Hägele et al. 2024");

  t.section("loss", "Cross-entropy, and what is added to it.");
  t.add("loss.z_loss", &config.loss.z_loss, "Weight of the squared log of the softmax denominator.")
      .at_least(0)
      .from("Chowdhery et al. 2022, PaLM");
  t.section("clip", "Limits of the gradient.");
  t.add("clip.type", &config.clip.type, "norm: of all gradients together; value: of each number.");
  t.add("clip.max", &config.clip.max, "The limit.")
      .above(0)
      .used_if("clip.type", {ClipType::kNorm, ClipType::kValue});
}

void add_run_length(SettingTable& t, TrainConfig& c) {
  t.section("train", "How long to train: one of steps, tokens, epochs and time.");
  t.add("train.steps", &c.steps, "Optimizer steps.")
      .range(1, kMaxTokens)
      .null_is("the length is not given in steps");
  t.add("train.tokens", &c.tokens, "Targets; the run ends at the first step that reaches them.")
      .as(Kind::kTokens)
      .range(1, kMaxTokens)
      .null_is("the length is not given in tokens")
      .default_is(
          "four passes over the text, at most 20M; 20M where optimizer.lr or init_from is given");
  t.add("train.epochs", &c.epochs, "Passes over the data.")
      .above(0)
      .null_is("the length is not given in epochs");
  t.add("train.time", &c.time,
        "How long training may take, counted from when the data are prepared. Some steps are "
        "measured, and the run gets the tokens that fit; its schedule ends there. The run's own "
        "config has the tokens.")
      .as(Kind::kDuration)
      .above(0)
      .null_is("the length is not given as a time");
  t.add("train.max_time", &c.max_time,
        "The process saves and exits with code 75 after this many seconds. They are counted from "
        "the time when the data are prepared, and include the planning of the batches.")
      .as(Kind::kDuration)
      .above(0)
      .null_is("no limit");
}

void add_guard(SettingTable& t, Config& config) {
  GuardConfig& guard = config.guard;
  t.section("guard", "What to do when training goes wrong.");
  t.add(
      "guard.on_nonfinite", &guard.on_nonfinite,
      "When the loss or the gradient is not finite. rollback: back to the last checkpoint, and on "
      "without the batch; stop: exit code 4; off: the step is applied all the same.");
  t.add("guard.max_skips", &guard.max_skips,
        "The run ends with exit code 4 at this many skips in a row, or after more rollbacks than "
        "this to one checkpoint.")
      .range(1, 1'000'000);
  t.add("guard.on_spike", &guard.on_spike,
        "When loss or gradient norm jumps above what is usual at the step's length.");
  t.add("guard.spike_sigma", &guard.spike_sigma,
        "A step is a spike if its loss or gradient norm is more than this many standard deviations "
        "above the window's mean.")
      .above(0)
      .used_if("guard.on_spike", {GuardPolicy::kSkip, GuardPolicy::kRollback, GuardPolicy::kStop});
  t.add("guard.window", &guard.window,
        "Updates in the window, of each length; judged once it is half full.")
      .range(2, 1'000'000)
      .used_if("guard.on_spike", {GuardPolicy::kSkip, GuardPolicy::kRollback, GuardPolicy::kStop});

  RestartConfig& restart = config.restart;
  t.section("restart", "Several short trials, of which the best is trained to the end.");
  t.add("restart.seeds", &restart.seeds, "Number of trials; 1: no trials.").range(1, 10'000);
  t.add("restart.tokens", &restart.tokens,
        "Length of a trial; with on_divergence also of the first part that must converge.")
      .in_units({kTokens, kPercent}, kTokens);
  t.add("restart.vary", &restart.vary,
        "What a trial's seed changes; init: the weights but not the order of data.");
  t.add("restart.on_divergence", &restart.on_divergence,
        "Begin again with the next seed when the guard ends a run, or its held-out loss at "
        "restart.tokens is not below that of step 0.");
  t.add("restart.max_attempts", &restart.max_attempts, "Runs begun in all.")
      .range(1, 10'000)
      .used_if("restart.on_divergence", {"true"});
}

void add_tokenizer_settings(SettingTable& t, TokenizerConfig& c) {
  t.section("tokenizer", "How text becomes ids.");
  t.add("tokenizer.model", &c.model,
        "Path of a sentencepiece .model, or of a Hugging Face tokenizer.json of BPE.")
      .as(SettingKind::kPath)
      .null_is("train one (with init_from: the tokenizer.model or tokenizer.json in its folder)");
  t.add("tokenizer.allow_mismatch", &c.allow_mismatch,
        "With init_from: true accepts a tokenizer that is not that of the weights, a new one or "
        "another. Its ids mean nothing to the given embedding and head.");
  t.section("tokenizer.train", "The tokenizer that is trained when none is given.");
  t.add("tokenizer.train.vocab_size", &c.train.vocab_size, "Number of pieces.")
      .range(32, 4'000'000)
      .used_if("tokenizer.model", {"null"});
  t.add("tokenizer.train.type", &c.train.type,
        "bpe and unigram give a sentencepiece model; byte_bpe gives a Hugging Face tokenizer.json "
        "of "
        "byte-level BPE, cut like Llama 3's.")
      .used_if("tokenizer.model", {"null"})
      .from("Kudo & Richardson 2018; byte_bpe: Radford et al. 2019");
  t.add("tokenizer.train.byte_fallback", &c.train.byte_fallback,
        "256 byte pieces, so that every text survives encoding and decoding; byte_bpe always has "
        "them.")
      .used_if("tokenizer.train.type", {TokenizerType::kBpe, TokenizerType::kUnigram});
  t.add("tokenizer.train.sample", &c.train.sample, "Bytes of text to learn from.")
      .as(SettingKind::kBytes)
      .range(1, 0x1p53)
      .used_if("tokenizer.model", {"null"});
  t.add("tokenizer.add_bos", &c.add_bos, "Begin each document with BOS.")
      .null_is(
          "what the given tokenizer's files say (add_bos_token, the template of tokenizer.json; a "
          "sentencepiece model with BOS alone: true); true for one that is trained",
          "auto");
  t.add("tokenizer.add_eos", &c.add_eos, "End each document with EOS.")
      .null_is("true, but for a given tokenizer that has no EOS", "auto");
}

void add_parallel_settings(SettingTable& t, ParallelConfig& c) {
  t.section("parallel", "Several processes that train one model together (docs/distributed.md).");
  t.add("parallel.sum", &c.sum,
        "How gradients are summed. fast: in the order that takes the least time; exact: in one "
        "order, whatever the number of processes, so that 1, 2, 4 ... up to parallel.parts of them "
        "compute the same bits.");
  t.add("parallel.parts", &c.parts,
        "Micro-batches a step, whose gradients are summed as a binary tree; a power of two.")
      .range(1, 1 << 16)
      .used_if("parallel.sum", {ParallelSum::kExact});
  t.add(
      "parallel.shard", &c.shard,
      "What is divided among several processes, so that each holds only its part. none: nothing; "
      "optimizer: the "
      "optimizer's state, whose tensors it updates for all; parameters: weights and gradient too, "
      "which are gathered layer by layer (on CPUs).");
  t.add("parallel.timeout", &c.timeout,
        "A process that has ended, hangs or cannot be reached ends all others within this time.")
      .as(SettingKind::kDuration)
      .range(1, 86400 * 365);
  t.add(
      "parallel.nccl", &c.nccl,
      "Whether GPUs exchange by NCCL, where all processes have it. false, in one process: through "
      "host memory and Gloo, which is slower.");
}

}  // namespace

SettingTable config_settings(Config& config) {
  SettingTable table;
  add_run(table, config);
  add_tokenizer_settings(table, config.tokenizer);
  add_data(table, config.data);
  add_sequence(table, config.sequence);
  table.section("model",
                "The Llama, by the names of transformers' LlamaConfig, Qwen3Config, Qwen2Config "
                "and MistralConfig, whose config.json can be pasted here.");
  add_model_settings(table, config.model, "model.");
  add_batch(table, config.batch);
  add_optimizer_settings(table, config.optimizer);
  add_schedules(table, config);
  add_run_length(table, config.train);
  add_guard(table, config);
  add_output_settings(table, config);
  add_parallel_settings(table, config.parallel);
  return table;
}

SettingTable source_settings(DataSourceConfig& source) {
  SettingTable table;
  table.add("path", &source.path, "File, folder or glob (* ? [] **).")
      .as(Kind::kPath)
      .must_be_given();
  table.add("weight", &source.weight, "How often an epoch sees the source: 1 once, 2 twice.")
      .range(1e-6, 1e6);
  return table;
}

}  // namespace lmtrain
