// An Arrow file or stream, through our reader.
#include "fuzz/tables.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(arrow) { read_documents(write_scratch("x.arrow", input), "arrow"); }

}  // namespace lmtrain::fuzzing
