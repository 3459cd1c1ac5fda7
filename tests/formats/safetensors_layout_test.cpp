#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/support.h"
#include "base/text.h"
#include "formats/safetensors_support.h"

namespace lmtrain {
namespace {

using testing::error_of;
using testing::OwnedTensors;
using testing::TemporaryFolder;

TEST(SafetensorsLayout, SaysWhereTheWriterPutsEachTensor) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const OwnedTensors tensors = testing::random_tensors(random, 8);
    const std::map<std::string, std::string> metadata = {{"format", "pt"}};
    testing::write_tensors(folder / "file", tensors, metadata);
    const std::string bytes = read_file(folder / "file");

    std::vector<TensorToWrite> described;
    for (const auto& [name, tensor] : tensors)
      described.push_back({name, tensor.dtype, tensor.shape, nullptr});
    const SafetensorsLayout layout(described, metadata, "file");
    EXPECT_EQ(layout.file_size(), bytes.size());
    EXPECT_EQ(bytes.find(str(layout.length(), layout.header())), 0U);
    for (const TensorToWrite& tensor : described) {
      EXPECT_EQ(bytes.substr(layout.offset_of(tensor), SafetensorsLayout::size_of(tensor)),
                tensors.at(tensor.name).bytes);
    }
  }
}

TEST(SafetensorsLayout, ATensorOfAnotherNameShapeOrTypeHasNoPlace) {
  const TensorToWrite tensor{"a", DType::kF32, {2, 3}, nullptr};
  const SafetensorsLayout layout({tensor}, {}, "file");
  EXPECT_EQ(layout.offset_of(tensor), layout.file_size() - 24);
  for (const TensorToWrite& other : {TensorToWrite{"b", DType::kF32, {2, 3}, nullptr},
                                     TensorToWrite{"a", DType::kF32, {3, 2}, nullptr},
                                     TensorToWrite{"a", DType::kI32, {2, 3}, nullptr}}) {
    const std::string message = error_of(ErrorKind::kInternal, [&] { layout.offset_of(other); });
    EXPECT_NE(message.find("file"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lmtrain
