// Rewrites parts of a checkpoint with a valid manifest: what a resume that forgets something would
// see. The negative controls of the resume tests.
#pragma once

#include <filesystem>
#include <functional>

#include "e2e/workspace.h"

namespace lmtrain::testing {

// Writes state.json and optimizer.safetensors anew, unchanged.
void rewrite_unchanged(const std::filesystem::path& checkpoint);
void change_state(const std::filesystem::path& checkpoint,
                  const std::function<void(Json& state)>& change);
// Sets the optimizer tensors whose name begins with `prefix` to zero.
void zero_moments(const std::filesystem::path& checkpoint, const std::string& prefix);

// Flips a bit of the byte at `offset`; from the end when negative.
void flip_bit(const std::filesystem::path& file, int64_t offset);

}  // namespace lmtrain::testing
