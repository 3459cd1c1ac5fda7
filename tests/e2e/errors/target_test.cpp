// Errors of what eval, generate and resume are pointed at.
#include "e2e/errors/error_case.h"
#include "e2e/references.h"
#include "e2e/tamper.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// A command on a copy of the reference run that `change` has broken; {run} in the arguments is it.
ErrorCase run_case(const std::string& name, int exit_code, const Arguments& arguments,
                   const std::vector<std::string>& parts,
                   const std::function<void(const RunDir&)>& change) {
  return {name, exit_code, parts, [=](const Workspace& workspace) {
            const RunDir run = reference().run.copy(workspace / "copy");
            change(run);
            Arguments filled = arguments;
            for (std::string& argument : filled) {
              if (argument.starts_with("{run}")) argument.replace(0, 5, run.path());
              if (argument == "{checkpoint}") argument = run.newest_checkpoint().string();
            }
            return filled;
          }};
}

Arguments eval_hf(const Arguments& more) {
  Arguments arguments = {"eval", kHfFolder.string(), "--data", "data/sample"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// eval of a copy of the HF folder.
ErrorCase hf_case(const std::string& name, int exit_code, const std::vector<std::string>& parts,
                  const std::function<void(const fs::path& folder)>& change) {
  return {name, exit_code, parts, [=](const Workspace& workspace) {
            const fs::path folder = workspace / "hf";
            fs::copy(kHfFolder, folder);
            change(folder);
            return Arguments{"eval", folder.string(), "--data", "data/sample"};
          }};
}

std::vector<ErrorCase> target_cases() {
  const auto nothing = [](const RunDir&) {};
  const auto break_all = [](const RunDir& run) {
    for (const int64_t step : run.checkpoint_steps()) {
      flip_bit(run.checkpoint(step) / "model.safetensors", -1);
    }
  };
  const std::string hf = kHfFolder.string();
  return {
      command_case("EvalMissingTarget", 2, {"eval", "no/such/run"},
                   {"no/such/run", "does not exist", "give a run folder"}),
      command_case("EvalOfAFile", 2, {"eval", "README.md"}, {"README.md"}),
      {"EvalOfAnEmptyFolder",
       2,
       {"holds no model", "config.json"},
       [](const Workspace& workspace) {
         fs::create_directory(workspace / "empty");
         return Arguments{"eval", (workspace / "empty").string()};
       }},
      {"EvalOfAFolderOfRuns",
       2,
       {"1 run in it: lmtrain eval ", "/runs/own"},
       [](const Workspace& workspace) {
         fs::create_directories(workspace / "runs");
         reference().run.copy(workspace / "runs/own");
         return Arguments{"eval", (workspace / "runs").string()};
       }},
      {"AverageOfAFolderOfRuns",
       2,
       {"1 run in it: ", "/runs/own"},
       [hf](const Workspace& workspace) {
         fs::create_directories(workspace / "runs");
         reference().run.copy(workspace / "runs/own");
         return Arguments{"average", (workspace / "runs").string(), hf, "--to",
                          (workspace / "out").string()};
       }},
      run_case("EvalNoSuchStep", 2, {"eval", "{run}", "--step", "7"},
               {"no checkpoint of step 7; its checkpoints are of "}, nothing),
      run_case("GenerateLastOfACheckpoint", 2,
               {"generate", "{checkpoint}", "--last", "--prompt", "a"},
               {"--last chooses a checkpoint of a run folder"}, nothing),
      run_case("ExportLastAndStep", 2,
               {"export", "{run}", "--last", "--step", "40", "--format", "hf", "--to", "no/such"},
               {"--last", "--step"}, nothing),
      run_case("ExportGgufAmongCheckpoints", 2,
               {"export", "{run}", "--format", "gguf", "--to", "{run}/checkpoints/step_00000099"},
               {"replace or remove it"}, nothing),
      run_case("ContinueDryRunOfAnotherSeed", 2,
               {"train", "{run}/config.json", "--run-dir", "{run}", "--continue", "--dry-run",
                "--set", "seed=5"},
               {"cannot change seed on resume"}, nothing),
      command_case("EvalWithoutData", 2, {"eval", hf}, {"--data"}),
      command_case("EvalMissingData", 2, {"eval", hf, "--data", "no-such.txt"}, {"no-such.txt"}),
      command_case("EvalUndefinedVariable", 2, {"eval", hf, "--data", "${LMTRAIN_NO_SUCH}/a"},
                   {"${LMTRAIN_NO_SUCH}/a", "LMTRAIN_NO_SUCH, which is not set", "export it"}),
      command_case("EvalBadLength", 2, eval_hf({"--max-length", "0"}), {"--max-length", "above 0"}),
      command_case("EvalBadBatch", 2, eval_hf({"--batch-tokens", "many"}),
                   {"--batch-tokens", "\"many\"", "above 0"}),
      command_case("EvalPrecision", 2, eval_hf({"--precision", "fp8"}), {"fp8", "allowed"}),
      command_case("EvalNoSuchPrecision", 2, eval_hf({"--precision", "half"}), {"half", "allowed"}),
      command_case("EvalDevice", 2, eval_hf({"--device", "cuda:31"}), {"cuda:31", "auto"}),
      command_case("EvalNoSuchDevice", 2, eval_hf({"--device", "gpu"}), {"gpu", "auto"}),
      command_case("EvalMissingTokenizer", 2, eval_hf({"--tokenizer", "no-such.model"}),
                   {"no-such.model", "--tokenizer"}),
      command_case("EvalWrongTokenizer", 3, eval_hf({"--tokenizer", "README.md"}),
                   {"README.md", "not a sentencepiece model"}),
      {"EvalBrokenData",
       3,
       {"broken.jsonl:1", "not JSON"},
       [hf](const Workspace& workspace) {
         return Arguments{"eval", hf, "--data", workspace.write("broken.jsonl", "{\n")};
       }},
      hf_case("EvalNoTokenizer", 2, {"tokenizer", "--tokenizer"},
              [](const fs::path& folder) { fs::remove(folder / "tokenizer.model"); }),
      hf_case("EvalTokenizerTooLarge", 3, {"384", "do not belong together"},
              [](const fs::path& folder) {
                change_json(folder / "config.json", [](Json& c) { c["vocab_size"] = 100; });
              }),
      hf_case("EvalBadPositions", 2, {"config.json", "/max_position_embeddings", "allowed"},
              [](const fs::path& folder) {
                change_json(folder / "config.json",
                            [](Json& c) { c["max_position_embeddings"] = "long"; });
              }),
      hf_case("EvalNegativePositions", 2, {"config.json", "/max_position_embeddings", "allowed"},
              [](const fs::path& folder) {
                change_json(folder / "config.json",
                            [](Json& c) { c["max_position_embeddings"] = -5; });
              }),
      run_case("EvalDamagedRun", 3, {"eval", "{run}"}, {"every checkpoint", "model.safetensors"},
               break_all),
      run_case("EvalDamagedCheckpoint", 3, {"eval", "{checkpoint}"}, {"model.safetensors"},
               break_all),
      run_case("EvalWithoutManifest", 3, {"eval", "{checkpoint}"}, {"manifest.json"},
               [](const RunDir& run) { fs::remove(run.newest_checkpoint() / "manifest.json"); }),
      run_case("EvalRunWithoutCheckpoint", 2, {"eval", "{run}"}, {"no checkpoint"},
               [](const RunDir& run) {
                 fs::remove_all(run.folder() / "checkpoints");
                 fs::create_directory(run.folder() / "checkpoints");
               }),
      run_case("ResumeAllDamaged", 3, {"resume", "{run}"}, {"every checkpoint", "backup"},
               break_all),
      run_case("ResumeBrokenConfig", 3, {"resume", "{run}"}, {"config.json:1", "cp "},
               [](const RunDir& run) { replace_file(run.folder() / "config.json", "{"); }),
      run_case("ResumeUnknownSetting", 2, {"resume", "{run}", "--set", "train.stps=5"},
               {"--set", "stps", "steps"}, nothing),
      run_case("ResumeInFp8", 2,
               {"resume", "{run}", "--set", "precision=fp8", "--set", "device=cpu"},
               {"\"fp8\"", "on a CPU", "set precision to"}, nothing),
      // As from a variable of the shell that is not set.
      run_case("ResumeIntoNothing", 2, {"resume", "{run}", "--run-dir", ""},
               {"--run-dir", "\"\" is not allowed", "give a path"}, nothing),
      command_case("ResumeOfNothing", 2, {"resume", ""}, {"\"\" is not allowed", "give a path"}),
      command_case("EvalOfNothing", 2, {"eval", ""}, {"\"\" is not allowed", "give a path"}),
      command_case("TrainIntoNothing", 2, {"train", "configs/tiny.json", "--run-dir", ""},
                   {"--run-dir", "give a path"}),
      command_case("TrainIntoAModel", 2, {"train", "configs/tiny.json", "--run-dir", hf},
                   {hf, "is a model, not a run", "--run-dir"}),
      command_case("ContinueAModel", 2,
                   {"train", "configs/tiny.json", "--run-dir", hf, "--continue"},
                   {hf, "is a model, not a run", "--run-dir"}),
      {"ExportAFileToAFolder",
       2,
       {"is a folder, and a file is to be written"},
       [hf](const Workspace& workspace) {
         fs::create_directory(workspace / "empty");
         return Arguments{"export",      hf,     "--format",
                          "torchscript", "--to", (workspace / "empty").string()};
       }},
      hf_case("EvalOfAnEmptyConfig", 3, {"hf/config.json", "is empty"},
              [](const fs::path& folder) { replace_file(folder / "config.json", ""); }),
      command_case("ResumeMissing", 2, {"resume", "no/such/run"}, {"no/such/run", "lmtrain train"}),
      command_case("ResumeNoRun", 2, {"resume", "data/sample"},
                   {"data/sample is not a run folder", "lmtrain train"}),
      command_case("GenerateMissing", 2, {"generate", "no/such/run", "--prompt", "a"},
                   {"no/such/run", "does not exist"}),
      command_case("GenerateWithoutPrompt", 2, {"generate", hf}, {"--prompt"}),
      command_case("GenerateWithBothPrompts", 2,
                   {"generate", hf, "--prompt", "a", "--prompts", "README.md"},
                   {"--prompt TEXT", "--prompts FILE"}),
      command_case("GenerateMissingPrompts", 2, {"generate", hf, "--prompts", "no-such.txt"},
                   {"no-such.txt", "does not exist", "--prompts"}),
      {"GenerateBrokenPrompts",
       3,
       {"broken.jsonl:2", "has no \"prompt\""},
       [hf](const Workspace& workspace) {
         return Arguments{"generate", hf, "--prompts",
                          workspace.write("broken.jsonl", "{\"prompt\":\"a\"}\n{}\n")};
       }},
      command_case("GenerateTooLong", 2, {"generate", hf, "--prompt", std::string(3000, 'x')},
                   {"the prompt has", "max_position_embeddings", "shorter"}),
      {"GenerateTooLongLine",
       2,
       {"long.txt:2 has", "max_position_embeddings", "shorter"},
       [hf](const Workspace& workspace) {
         return Arguments{"generate", hf, "--prompts",
                          workspace.write("long.txt", "a\n" + std::string(3000, 'x') + "\n")};
       }},
      command_case("GeneratePenalty", 2,
                   {"generate", hf, "--prompt", "a", "--repetition-penalty", "0"},
                   {"--repetition-penalty", "from 0.001"}),
      command_case("GenerateTopK", 2, {"generate", hf, "--prompt", "a", "--top-k", "-1"},
                   {"--top-k", "at least 0"}),
      command_case("GenerateTopP", 2, {"generate", hf, "--prompt", "a", "--top-p", "2"},
                   {"--top-p", "from 0 to 1"}),
      command_case("GenerateTemperature", 2,
                   {"generate", hf, "--prompt", "a", "--temperature", "-1"},
                   {"--temperature", "-1", "at least 0"}),
      command_case("GenerateSeed", 2, {"generate", hf, "--prompt", "a", "--seed", "x"},
                   {"--seed", "\"x\"", "an integer"}),
      run_case("GenerateDamaged", 3, {"generate", "{run}", "--prompt", "a"}, {"every checkpoint"},
               break_all),
  };
}

INSTANTIATE_TEST_SUITE_P(Target, Errors, ::testing::ValuesIn(target_cases()), case_name);

}  // namespace
}  // namespace lmtrain::testing
