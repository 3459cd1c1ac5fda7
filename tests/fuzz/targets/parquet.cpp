// A Parquet file, through our reader.
#include "fuzz/tables.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(parquet) { read_documents(write_scratch("x.parquet", input), "parquet"); }

}  // namespace lmtrain::fuzzing
