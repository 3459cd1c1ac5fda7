#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/export_model.h"
#include "cli/commands.h"
#include "cli/model_options.h"

namespace lmtrain {
namespace {

struct ExportArguments {
  TargetArguments target;
  std::string format;
  std::string to;
  std::string dtype = "fp32";
  std::optional<std::string> shard_size;
};

DType dtype_named(const std::string& name) {
  return name == "bf16" ? DType::kBF16 : name == "fp16" ? DType::kF16 : DType::kF32;
}

GgufType gguf_type_named(const std::string& name) {
  return name == "q8_0"   ? GgufType::kQ80
         : name == "bf16" ? GgufType::kBF16
         : name == "fp16" ? GgufType::kF16
                          : GgufType::kF32;
}

void require_together(const ExportArguments& options) {
  if (options.shard_size && options.format != "hf") {
    throw Error(ErrorKind::kUsage,
                str("--shard-size goes with --format hf; ", options.format, " is one file"));
  }
  if (options.dtype == "q8_0" && options.format != "gguf") {
    throw Error(ErrorKind::kUsage, str("--dtype q8_0 goes with --format gguf; give fp32, bf16 or "
                                       "fp16 for ",
                                       options.format));
  }
}

int export_model(const ExportArguments& options) {
  require_together(options);
  const DType dtype = dtype_named(options.dtype);
  const uint64_t shard_bytes = options.shard_size
                                   ? static_cast<uint64_t>(bytes_of(*options.shard_size).value())
                                   : kDefaultShardBytes;
  const auto write = [&](const ModelLocation& location) {
    const ModelExport done =
        options.format == "gguf" ? export_gguf(location, options.to, gguf_type_named(options.dtype))
        : options.format == "torchscript" ? export_torchscript(location, options.to, dtype)
                                          : export_hf(location, options.to, dtype, shard_bytes);
    std::cout << "model    " << location.folder.string() << "\nwritten  " << options.to << ": "
              << format_count(static_cast<double>(done.parameters)) << " parameters in "
              << options.dtype << ", " << format_bytes(done.bytes) << " in "
              << counted(static_cast<int64_t>(done.files), "file") << std::endl;
    return done;
  };
  with_located_model(options.target.path, write, options.target.request("export"));
  return 0;
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand(
      "export", "Write a model for Hugging Face transformers or llama.cpp, or as TorchScript");
  add_target(*command, options->target);
  command->add_option("--format", options->format, "hf, gguf or torchscript")
      ->required()
      ->check(allowed("hf, gguf or torchscript", [](const std::string& text) {
        return text == "hf" || text == "gguf" || text == "torchscript";
      }));
  command->add_option("--to", options->to, "The folder or file to write; nothing may be there")
      ->type_name("PATH")
      ->required()
      ->check(not_empty());
  command->add_option("--dtype", options->dtype, "fp32, bf16 or fp16; for gguf also q8_0")
      ->check(allowed("fp32, bf16, fp16 or q8_0",
                      [](const std::string& text) {
                        return text == "fp32" || text == "bf16" || text == "fp16" || text == "q8_0";
                      }))
      ->capture_default_str();
  command
      ->add_option("--shard-size", options->shard_size,
                   "Bytes of weights in a file of a folder at most (default: 5GB)")
      ->type_name("BYTES")
      ->check(bytes_above_zero());
  command->callback([options, &action] { action = [options] { return export_model(*options); }; });
}

}  // namespace lmtrain
