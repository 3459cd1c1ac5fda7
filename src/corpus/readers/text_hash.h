// The hash by which the passes over a corpus know a text.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace lmtrain {

// Split, sample and the order of held-out text know a text by this hash; it never changes, and no
// seed enters. (hash64("") is 0, which would always come first.)
inline uint64_t text_hash(const Hash128& hash) { return mix64(hash.low); }

}  // namespace lmtrain
