// Token files of other programs. The input is the file of ids, then Megatron's index after a "%%".
// Where the layout is accepted, all ids that it names are in the file.
#include "formats/token_file.h"
#include "formats/token_reference.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(token_files) {
  const std::vector<std::string> parts = parts_of(input, 2);
  const std::filesystem::path path = write_scratch("ids.bin", parts[0]);
  std::filesystem::remove(scratch_folder() / "ids.idx");
  if (!parts[1].empty()) write_scratch("ids.idx", parts[1]);
  const MappedFile file(path);
  for (const int64_t vocab_size : {int64_t{300}, int64_t{100'000}}) {
    TokenFileLayout layout;
    if (!accepts([&] { layout = read_token_file_layout(file, vocab_size); })) continue;
    const uint64_t width = layout.bytes_per_token;
    require(width == 1 || width == 2 || width == 4 || width == 8, "an id has an odd width");
    require(layout.begin <= parts[0].size() &&
                layout.num_tokens <= (parts[0].size() - layout.begin) / width,
            "ids outside the file");
    std::vector<int32_t> ids(layout.num_tokens);
    if (!ids.empty()) copy_token_ids(file.bytes().data() + layout.begin, width, ids);
    uint64_t previous = 0;
    for (const uint64_t end : layout.document_ends) {
      require(previous <= end && end <= layout.num_tokens, "a document lies outside the file");
      previous = end;
    }
  }
}

}  // namespace lmtrain::fuzzing
