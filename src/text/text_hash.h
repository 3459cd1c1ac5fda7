// The passes over a corpus identify a text by this hash.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace lmtrain {

// Returns the hash by which split, sample and the order of held-out text identify a text; `hash` is
// its hash128(). The function never changes, and no seed enters. (hash64("") is 0, which would
// always come first.)
inline uint64_t text_hash(const Hash128& hash) { return mix64(hash.low); }

}  // namespace lmtrain
