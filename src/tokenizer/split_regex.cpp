#include "tokenizer/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

// The most backtracking steps of a match: a base, and more for each byte of text. It suffices for
// any linear expression, and stops exponential ones.
constexpr uint64_t kFewestSteps = 1'000'000;
constexpr uint64_t kStepsPerByte = 16;
constexpr size_t kJitStackBegin = size_t{64} << 10;
constexpr size_t kJitStackMost = size_t{16} << 20;
constexpr uint32_t kHeapKibibytes = 64 << 10;  // without JIT

template <class T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* pointer) const { Free(pointer); }
};
template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Deleter<T, Free>>;
using Code = Owned<pcre2_code, pcre2_code_free>;
using CompileContext = Owned<pcre2_compile_context, pcre2_compile_context_free>;
using MatchContext = Owned<pcre2_match_context, pcre2_match_context_free>;
using MatchData = Owned<pcre2_match_data, pcre2_match_data_free>;
using JitStack = Owned<pcre2_jit_stack, pcre2_jit_stack_free>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct SplitRegex::Impl {
  std::string origin;
  std::string pattern;
  Code code;
  bool has_jit = false;
};

struct SplitRegex::Matcher::Impl {
  MatchContext context{pcre2_match_context_create(nullptr)};
  MatchData data{pcre2_match_data_create(1, nullptr)};
  JitStack stack{pcre2_jit_stack_create(kJitStackBegin, kJitStackMost, nullptr)};

  Impl() {
    if (!context || !data) throw std::bad_alloc();
    pcre2_set_heap_limit(context.get(), kHeapKibibytes);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

SplitRegex::Matcher::Matcher() : impl_(std::make_unique<Impl>()) {}
SplitRegex::Matcher::~Matcher() = default;

SplitRegex::SplitRegex(std::string_view pattern, std::string origin)
    : impl_(std::make_unique<Impl>()) {
  impl_->origin = std::move(origin);
  impl_->pattern = pattern;
  const auto fail = [&](std::string_view what) {
    throw Error(ErrorKind::kData, str(impl_->origin, ": the regular expression ", quote(pattern),
                                      " ", what, "; the file is damaged, or not supported"));
  };
  const std::string translated = pcre2_pattern(pattern, impl_->origin);
  const CompileContext context{pcre2_compile_context_create(nullptr)};
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // PCRE2_MULTILINE: ^ and $ are Ruby's.
  impl_->code.reset(pcre2_compile(units(translated), translated.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                  &error, &offset, context.get()));
  if (!impl_->code) fail(str("does not compile: ", message_of(error)));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(impl_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) fail("matches the empty text");
  impl_->has_jit = pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}
SplitRegex::~SplitRegex() = default;
SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;

const std::string& SplitRegex::pattern() const { return impl_->pattern; }

bool SplitRegex::find(std::string_view text, size_t from, Matcher& matcher, Match& match) const {
  Matcher::Impl& memory = *matcher.impl_;
  const uint64_t steps = kFewestSteps + kStepsPerByte * text.size();
  pcre2_set_match_limit(memory.context.get(),
                        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  const auto run = impl_->has_jit ? pcre2_jit_match : pcre2_match;
  const int result = run(impl_->code.get(), units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                         memory.data.get(), memory.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw Error(ErrorKind::kData,
                str(impl_->origin, ": the regular expression ", quote(impl_->pattern),
                    " cannot cut a text of ", text.size(), " bytes at byte ", from, ": ",
                    message_of(result),
                    "; give a tokenizer whose expression needs less, or split the document"));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory.data.get());
  match = {bounds[0], bounds[1]};
  return true;
}

}  // namespace lmtrain
