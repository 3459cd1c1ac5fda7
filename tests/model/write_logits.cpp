// write_logits FOLDER OUT.safetensors: what our Llama makes of random ids, for
// scripts/check_transformers.py to hold against transformers. `input_ids` I64 [B, T], `logits` F32
// [B, T, V].
#include <cstdio>

#include "base/random.h"
#include "device/torch_headers.h"
#include "formats/safetensors.h"
#include "support/llama_case.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_logits FOLDER OUT.safetensors\n");
    return 2;
  }
  lmtrain::testing::LoadedModel loaded{std::filesystem::path(argv[1])};
  const int64_t length = std::min<int64_t>(64, loaded.max_length);
  const at::Tensor ids = at::empty({2, length}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const uint64_t bits =
        lmtrain::random_bits(1, lmtrain::RandomStream::kBench, static_cast<uint64_t>(i));
    ids.data_ptr<int64_t>()[i] =
        static_cast<int64_t>(bits % static_cast<uint64_t>(*loaded.config.vocab_size));
  }
  const at::Tensor logits = loaded.llama(lmtrain::CompileMode::kScript).logits(ids).contiguous();
  lmtrain::FileWriter writer(argv[2]);
  lmtrain::write_safetensors(
      writer,
      {{"input_ids", lmtrain::DType::kI64, ids.sizes().vec(), ids.data_ptr()},
       {"logits", lmtrain::DType::kF32, logits.sizes().vec(), logits.data_ptr()}},
      {});
  writer.finish();
  return 0;
}
