#include "model/write_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/examine.h"
#include "base/support.h"
#include "support/llama_case.h"
#include "support/models.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::LlamaCase;
using testing::same_bits;
using testing::TemporaryFolder;

constexpr uint64_t kNoLimit = uint64_t{1} << 40;
const Poll kNoPoll = [] {};
constexpr const char* kNorm = "model.norm.weight";

// A model whose last norm has these weights.
struct WithNorm : LlamaCase {
  explicit WithNorm(const std::vector<float>& values) : LlamaCase("mha_tied") {
    norm().narrow(0, 0, static_cast<int64_t>(values.size())).copy_(at::tensor(values));
  }
  at::Tensor norm() {
    for (const ParameterSpec& spec : parameters.layout().parameters())
      if (spec.name == kNorm) return parameters.master_view(spec);
    return {};
  }
};

// The bits of its numbers of 16 bits.
std::vector<uint16_t> bits(const TensorView& view) {
  std::vector<uint16_t> all(view.bytes.size() / 2);
  std::memcpy(all.data(), view.bytes.data(), view.bytes.size());
  return all;
}

TEST(WriteWeights, Fp32HasTheBitsOfTheModel) {
  for (const std::string& name : testing::llama_cases()) {
    const LlamaCase golden(name);
    const TemporaryFolder folder;
    const WeightsWritten written =
        write_weights(folder.path(), golden.parameters, DType::kF32, kNoLimit, kNoPoll);
    EXPECT_EQ(written.files, 1U);
    EXPECT_EQ(written.bytes, weight_bytes(golden.parameters.layout(), DType::kF32));
    EXPECT_EQ(static_cast<int64_t>(written.bytes), 4 * golden.parameters.layout().num_parameters());
    const TensorFiles before(golden.folder), after(folder.path());
    ASSERT_EQ(after.tensors().size(), before.tensors().size());
    for (const auto& [tensor, view] : before.tensors()) {
      EXPECT_EQ(after.at(tensor).shape, view.shape);
      EXPECT_EQ(after.at(tensor).bytes, view.bytes) << tensor;
    }
  }
}

// Each number between its two neighbours, and exactly in the middle, by the bits of the formats.
TEST(WriteWeights, RoundsToTheNearestAndInTheMiddleToEven) {
  const float tiny = std::ldexp(1.0F, -24);  // the least of fp16 above 0
  struct Case {
    float value;
    uint16_t bf16, fp16;
  };
  const std::vector<Case> cases = {
      {0.0F, 0x0000, 0x0000},
      {-0.0F, 0x8000, 0x8000},
      {1.0F, 0x3F80, 0x3C00},
      {-2.5F, 0xC020, 0xC100},
      {1 + std::ldexp(1.0F, -8), 0x3F80, 0x3C04},      // middle in bf16: down to even
      {1 + 3 * std::ldexp(1.0F, -8), 0x3F82, 0x3C0C},  // middle in bf16: up to even
      {std::nextafter(1 + std::ldexp(1.0F, -8), 2.0F), 0x3F81, 0x3C04},
      {1 + std::ldexp(1.0F, -11), 0x3F80, 0x3C00},      // middle in fp16
      {1 + 3 * std::ldexp(1.0F, -11), 0x3F80, 0x3C02},  // middle in fp16
      {65504.0F, 0x4780, 0x7BFF},
      {tiny, 0x3380, 0x0001},
      {tiny / 2, 0x3300, 0x0000},  // middle in fp16
      {1.5F * tiny, 0x33C0, 0x0002},
      {std::bit_cast<float>(0x00010000U), 0x0001, 0x0000},  // subnormal in bf16
      {std::bit_cast<float>(0x00018000U), 0x0002, 0x0000},  // middle of two such
      {std::numeric_limits<float>::infinity(), 0x7F80, 0x7C00},
  };
  std::vector<float> values;
  for (const Case& one : cases) values.push_back(one.value);
  const WithNorm model(values);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const TemporaryFolder folder;
    write_weights(folder.path(), model.parameters, dtype, kNoLimit, kNoPoll);
    const TensorFiles files(folder.path());
    EXPECT_EQ(files.at(kNorm).dtype, dtype);
    const std::vector<uint16_t> stored = bits(files.at(kNorm));
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(stored[i], dtype == DType::kBF16 ? cases[i].bf16 : cases[i].fp16)
          << cases[i].value << " in " << dtype_name(dtype);
    }
  }
}

TEST(WriteWeights, ANumberThatDoesNotFitIsAnErrorThatNamesItsTensor) {
  const TemporaryFolder folder;
  const auto problem = [&](float value, DType dtype) {
    const WithNorm model({1.0F, value});
    return error_of(ErrorKind::kNumeric, [&] {
      write_weights(folder.path(), model.parameters, dtype, kNoLimit, kNoPoll);
    });
  };
  const std::string fp16 = problem(-65520.0F, DType::kF16);
  for (const char* part : {kNorm, "-65520", "F16", "bf16 or fp32"})
    EXPECT_NE(fp16.find(part), std::string::npos) << fp16;
  const std::string bf16 = problem(std::numeric_limits<float>::max(), DType::kBF16);
  for (const char* part : {kNorm, "3.40282e+38", "BF16", "export in fp32"})
    EXPECT_NE(bf16.find(part), std::string::npos) << bf16;
}

// Written in several files in 16 bits and read again, the numbers are those that were rounded.
TEST(WriteWeights, ShardsAreReadAsTheyWereWritten) {
  for (const auto& [dtype, scalar] : std::vector<std::pair<DType, at::ScalarType>>{
           {DType::kF32, at::kFloat}, {DType::kBF16, at::kBFloat16}, {DType::kF16, at::kHalf}}) {
    const ModelConfig config = testing::two_layer_model();
    const ParameterLayout layout(config, 503);
    Parameters parameters(layout, at::kFloat, at::kCPU), read(layout, at::kFloat, at::kCPU);
    parameters.initialize(3, 0.02);
    const TemporaryFolder folder;
    int polls = 0;
    const WeightsWritten written =
        write_weights(folder.path(), parameters, dtype, 200'000, [&] { ++polls; });
    EXPECT_GT(written.files, 2U);
    EXPECT_EQ(static_cast<size_t>(polls), written.files);
    EXPECT_EQ(list_folder(folder.path()).size(), written.files + 1);
    load_weights(TensorFiles(folder.path()), read);
    EXPECT_TRUE(same_bits(read.master(), parameters.master().to(scalar).to(at::kFloat)))
        << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace lmtrain
