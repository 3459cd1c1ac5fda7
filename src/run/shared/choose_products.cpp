#include "run/shared/choose_products.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <set>
#include <sstream>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "products/chosen_products.h"
#include "products/product_text.h"
#include "train/micro_batch_limits.h"
#include "train/resolve.h"
#include "train/step.h"

namespace lmtrain {
namespace {

std::string device_name(const Config& config) {
  return device_description(device_of(config), static_cast<int>(*config.threads));
}

// A choice a line, for the other processes.
std::string to_text(const std::vector<ProductChoice>& choices) {
  std::string text;
  for (const ProductChoice& choice : choices)
    text +=
        str(choice.m, " ", choice.n, " ", choice.k, " ", choice.algorithm, " ", choice.kind, "\n");
  return text;
}

std::vector<ProductChoice> from_text(const std::string& text) {
  std::vector<ProductChoice> choices;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    ProductChoice& choice = choices.emplace_back();
    words >> choice.m >> choice.n >> choice.k >> choice.algorithm >> std::ws;
    std::getline(words, choice.kind);
  }
  return choices;
}

AlgorithmByProduct table_of(const std::vector<ProductChoice>& choices) {
  AlgorithmByProduct table;
  for (const ProductChoice& choice : choices) {
    const auto product = product_of(choice);
    const auto algorithm = algorithm_of(choice);
    if (!product || !algorithm)
      throw Error(ErrorKind::kInternal, "a choice of an algorithm that cannot be read");
    table[*product] = *algorithm;
  }
  return table;
}

std::string product_text(const ProductChoice& choice) {
  return str(choice.m, " x ", choice.n, " x ", choice.k, " ", choice.kind);
}

// Why they do not hold in this process; empty where they do.
std::string reason_against(const Config& config, const ProductChoices& choices) {
  const at::Device device = device_of(config);
  const int64_t version = matmul_library_version(device);
  if (choices.library != version)
    return str("cuBLASLt is ", version, ", and was ", choices.library);
  if (const std::string name = device_name(config); choices.device != name)
    return str("the device is \"", name, "\", and was \"", choices.device, "\"");
  if (choices.micro_tokens != *config.batch.micro_tokens)
    return str("batch.micro_tokens is ", *config.batch.micro_tokens, ", and was ",
               choices.micro_tokens);
  for (const ProductChoice& choice : choices.chosen) {
    if (!serves_product(device, *product_of(choice), *algorithm_of(choice)))
      return str("the device does not take the algorithm of ", product_text(choice));
  }
  return "";
}

std::string first_of(const std::vector<std::string>& texts) {
  const auto found =
      std::find_if(texts.begin(), texts.end(), [](const auto& text) { return !text.empty(); });
  return found == texts.end() ? "" : *found;
}

// The rows of the micro-batches that steps of this length have in this process.
std::set<int64_t> micro_batches(const Config& config, const MicroBatchLimits& limits,
                                int64_t length, const Processes& processes) {
  const int64_t rows = config.batch.tokens / length;
  const int64_t at_once = micro_rows(config, limits, length);
  const bool exact = config.parallel.sum == ParallelSum::kExact;
  const int64_t parts = exact ? config.parallel.parts : processes.count();
  const int64_t of_process = parts / processes.count();
  const int64_t first = of_process * processes.rank();
  std::set<int64_t> sizes;
  for (int64_t part = first; part < first + of_process; ++part) {
    const RowRange own = rows_of_part(rows, part, parts);
    const int64_t count = own.end - own.first;
    if (count >= at_once) sizes.insert(at_once);
    if (count % at_once != 0) sizes.insert(count % at_once);
  }
  return sizes;
}

// The products of forward and backward of each, which are computed. Without an algorithm.
std::vector<ProductChoice> products_of_steps(const Config& config, Llama& model,
                                             const std::vector<int64_t>& lengths,
                                             const at::Tensor& grad, const MicroBatchLimits& limits,
                                             const Processes& processes) {
  const NotedProducts noted;
  for (const int64_t length : lengths) {
    for (const int64_t rows : micro_batches(config, limits, length, processes)) {
      // Twice: the first micro-batch of a step overwrites the gradient, the others add to it.
      accumulate_batch(model, costliest_batch(config.sequence, length, 2 * rows), rows * length,
                       grad);
    }
  }
  std::vector<ProductChoice> products;
  for (const cuda::MatrixProduct& product : noted.all()) products.push_back(choice_of(product, {}));
  return products;
}

// Returns the choices that this process has measured before, if they cover all products.
std::optional<std::vector<ProductChoice>> measured_before(
    const ProductChoices& wanted, const std::set<cuda::MatrixProduct>& products) {
  const std::optional<ProductChoices>& before = measured_products();
  if (!before || before->library != wanted.library || before->device != wanted.device ||
      before->micro_tokens != wanted.micro_tokens)
    return std::nullopt;
  const AlgorithmByProduct table = table_of(before->chosen);
  const bool has_all = std::all_of(products.begin(), products.end(),
                                   [&](const auto& product) { return table.contains(product); });
  return has_all ? std::optional(before->chosen) : std::nullopt;
}

std::vector<ProductChoice> measure(const at::Device& device,
                                   const std::set<cuda::MatrixProduct>& products) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<ProductAlgorithms> algorithms = library_algorithms(device);
  std::vector<ProductChoice> chosen;
  int64_t others = 0;
  double seconds = 0, seconds_of_first = 0;
  for (const cuda::MatrixProduct& product : products) {
    const std::optional<ChosenAlgorithm> best = choose_algorithm(*algorithms, product);
    if (!best) continue;
    chosen.push_back(choice_of(product, best->algorithm));
    others += best->seconds != best->seconds_of_first ? 1 : 0;
    seconds += best->seconds;
    seconds_of_first += best->seconds_of_first;
  }
  if (!chosen.empty()) {
    log_note(
        str("products: ", others, " of ", chosen.size(),
            " are faster with another algorithm than cuBLAS's first choice; all together take ",
            std::fixed, std::setprecision(1), 100 * (1 - seconds / seconds_of_first),
            " % less time (measured in ", seconds_since(begin), " s)"));
  }
  return chosen;
}

}  // namespace

std::string take_up_products(const Config& config, std::optional<ProductChoices>& choices,
                             Processes& processes) {
  drop_chosen_products();
  if (config.products == ProductSetting::kHeuristic) choices.reset();
  if (!choices) return "";
  const std::string reason = first_of(processes.gather_texts(reason_against(config, *choices)));
  if (reason.empty()) {
    use_products(device_of(config), table_of(choices->chosen));
  } else {
    choices.reset();
  }
  return reason.empty() ? "" : str("algorithms of products are chosen anew: ", reason);
}

void choose_products_once(const Config& config, Llama& model, const std::vector<int64_t>& lengths,
                          const at::Tensor& grad, const MicroBatchLimits& limits,
                          std::optional<ProductChoices>& choices, Processes& processes) {
  if (config.products == ProductSetting::kHeuristic || choices) return;
  const at::Device device = device_of(config);
  std::set<cuda::MatrixProduct> products;
  for (const std::string& text : processes.gather_texts(
           to_text(products_of_steps(config, model, lengths, grad, limits, processes)))) {
    for (const ProductChoice& noted : from_text(text)) products.insert(*product_of(noted));
  }
  choices = {matmul_library_version(device), device_name(config), *config.batch.micro_tokens, {}};
  if (processes.is_first()) {
    const auto before = measured_before(*choices, products);
    choices->chosen = before ? *before : measure(device, products);
  }
  choices->chosen = from_text(processes.broadcast(to_text(choices->chosen)));
  // Those that are refused somewhere count nowhere.
  std::string refused;
  for (const ProductChoice& choice : choices->chosen) {
    if (!serves_product(device, *product_of(choice), *algorithm_of(choice)))
      refused += to_text({choice});
  }
  for (const std::string& text : processes.gather_texts(refused)) {
    for (const ProductChoice& choice : from_text(text)) std::erase(choices->chosen, choice);
  }
  measured_products() = choices;
  use_products(device, table_of(choices->chosen));
}

}  // namespace lmtrain
