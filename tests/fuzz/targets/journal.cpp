// The journal of a preparation. What is loaded must also be written, and load the same again.
#include "prepare/journal.h"

#include "fuzz/sealed.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(journal) {
  const std::filesystem::path path = write_scratch("x.journal", sealed(input));
  Journal journal(path, PrepareOptions{});
  PreparationState state;
  bool is_loaded = false;
  if (!accepts([&] { is_loaded = journal.load(state); }) || !is_loaded) return;
  journal.save(state);
  const std::string written = read_file(path);
  PreparationState again;
  require(journal.load(again), "a journal that is written does not load");
  journal.save(again);
  require(read_file(path) == written, "a journal that is written loads as another");
}

}  // namespace lmtrain::fuzzing
