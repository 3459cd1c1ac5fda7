// The error of all encoders for a text that is too long to be encoded in one piece.
#pragma once

#include <cstddef>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

// Throws Error(kData): a document has `num_bytes` bytes between which the tokenizer cannot cut it.
[[noreturn]] inline void fail_uncut(size_t num_bytes) {
  throw Error(ErrorKind::kData, str("a document has ", num_bytes,
                                    " bytes without a place where the tokenizer could cut it; "
                                    "split it into several documents"));
}

}  // namespace lmtrain
