#include "checkpoint/average_models.h"

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/publish.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/given_model.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/run_folder.h"
#include "config/init_from.h"
#include "config/settings.h"
#include "device/torch_headers.h"
#include "formats/tensor_files.h"
#include "model/hf_folder.h"
#include "model/write_weights.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Says which setting of the architecture differs; empty when none does.
std::string architecture_difference(ModelConfig first, ModelConfig other) {
  for (ModelConfig* model : {&first, &other}) {
    model->head_dim = model->resolved_head_dim();
    // These settings do not matter once the weights exist.
    model->activation_checkpointing = false;
    model->initializer_range = ModelConfig().initializer_range;
  }
  const SettingTable first_table = model_settings(first, "");
  const SettingTable other_table = model_settings(other, "");
  for (const Setting& setting : first_table.settings()) {
    const std::string first_value = value_text(setting);
    const std::string other_value = value_text(*other_table.find(setting.key));
    if (first_value != other_value)
      return str(setting.key, " is ", first_value, " and ", other_value);
  }
  return "";
}

// Sums models one by one. Copies config and tokenizer of the first model into `folder_` at once,
// since its checkpoint may be removed meanwhile.
class ModelSum {
 public:
  ModelSum(fs::path folder, fs::path to) : folder_(std::move(folder)), to_(std::move(to)) {}

  void add(const ModelLocation& location) {
    if (locations_.empty()) {
      begin(location);
    } else {
      require_alike(location);
    }
    load_weights(TensorFiles(location.folder), *model_);
    sum_.add_(model_->master());
    locations_.push_back(location.folder);
  }

  // Returns the mean, in the memory of the model that was read last.
  const Parameters& mean() {
    model_->master().copy_(sum_.div_(static_cast<double>(locations_.size())));
    return *model_;
  }

 private:
  void begin(const ModelLocation& location) {
    config_ = located_model_config(location);
    ParameterLayout layout = located_layout(location);
    require_free_space(folder_.parent_path(), weight_bytes(layout, DType::kF32), "the mean");
    lmtrain::create_directories(folder_);
    write_files_beside_weights(location, folder_, DType::kF32);
    note_missing_tokenizer(location, to_);
    tokenizer_.reset();
    if (const auto file = tokenizer_in(location.folder)) tokenizer_ = Tokenizer::load(*file);
    model_.emplace(std::move(layout), at::kFloat, at::kCPU);
    sum_ = at::zeros({model_->layout().flat_size()}, at::kDouble);
  }

  void require_alike(const ModelLocation& location) const {
    for (const fs::path& folder : locations_) {
      if (fs::weakly_canonical(folder) == fs::weakly_canonical(location.folder))
        throw Error(ErrorKind::kUsage, str(location.folder.string(), " is given twice"));
    }
    const std::string shape = architecture_difference(config_, located_model_config(location));
    if (!shape.empty()) refuse(location, "not of one architecture: " + shape);
    if (!tokenizer_) return;
    const auto differs = difference_from_weights(*tokenizer_, location.folder);
    if (differs && !differs->what.empty())
      refuse(location, "not of one tokenizer: in that of the first " + differs->what);
    if (!differs)
      log_warning(str(location.folder.string(),
                      " has no tokenizer to compare with that of the first model"));
  }

  [[noreturn]] void refuse(const ModelLocation& location, const std::string& why) const {
    throw Error(ErrorKind::kUsage,
                str(locations_.front().string(), " and ", location.folder.string(), " are ", why,
                    "; give checkpoints of one run, or of runs that began from one model"));
  }

  fs::path folder_;
  fs::path to_;
  std::vector<fs::path> locations_;
  ModelConfig config_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<Parameters> model_;
  at::Tensor sum_;
};

}  // namespace

ModelExport average_models(const std::vector<fs::path>& targets, const fs::path& to) {
  require_no_checkpoint_path(to);
  if (targets.size() < 2) {
    throw Error(ErrorKind::kUsage,
                "an average takes two models or more; `lmtrain export` copies one");
  }
  Unpublished folder(to, FileKind::kFolder);
  ModelSum sum(folder.path(), to);
  for (const fs::path& target : targets) {
    with_located_model(target, [&](const ModelLocation& location) {
      sum.add(location);
      return 0;
    });
    throw_if_stopped();
  }
  const Parameters& mean = sum.mean();
  const WeightsWritten written =
      write_weights(folder.path(), mean, DType::kF32, kDefaultShardBytes, throw_if_stopped);
  throw_if_stopped();
  folder.publish();
  return {mean.layout().num_parameters(), written.files, written.bytes};
}

}  // namespace lmtrain
