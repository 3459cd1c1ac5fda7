// A fuzz target is a function of any bytes that hands them to one parser. It is called by libFuzzer
// (scripts/fuzz.sh), and by replay.cpp for the inputs in tests/fuzz/corpus/NAME, with any compiler.
//
// A parser may refuse its input with an Error. A crash, an endless loop, memory that is out of
// proportion, an Error(kInternal), an exception of another type and a property that does not hold
// are findings.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lmtrain::fuzzing {

using Target = void (*)(std::string_view input);

// Makes a target known by its name.
struct Registration {
  Registration(const char* name, Target target);
};
// Returns the target, or null.
Target find_target(std::string_view name);
std::vector<std::string> target_names();

#define LMTRAIN_FUZZ_TARGET(name)                                \
  static void fuzz_##name(std::string_view input);               \
  static const Registration register_##name(#name, fuzz_##name); \
  static void fuzz_##name(std::string_view input)

// Ends the process with `what` unless `holds`.
void require(bool holds, const char* what);

// Prints an Error that has refused an input, where the variable LMTRAIN_FUZZ_VERBOSE is there.
void note_refusal(const Error& error);

// Calls the parser and returns whether it accepted its input. An Error that is not of our making
// refuses it; any other exception passes.
template <class Action>
bool accepts(const Action& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::kInternal, error.what());
    note_refusal(error);
    return false;
  }
}

// A folder in memory that the process has for itself; it is removed at the end. Inputs that hold
// absolute paths reach it as /proc/self/fd/200.
const std::filesystem::path& scratch_folder();
// Writes a file there and returns its path.
std::filesystem::path write_scratch(const std::filesystem::path& name, std::string_view bytes);

// Cuts the input at lines that are "%%": a target may need several files or values.
std::vector<std::string> parts_of(std::string_view input, size_t most);

}  // namespace lmtrain::fuzzing
