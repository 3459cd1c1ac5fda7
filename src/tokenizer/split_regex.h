// A regular expression that cuts text, as the pre-tokenizers of Hugging Face's `tokenizers` use it.
// It is written in the syntax of Oniguruma (Ruby), with the properties of Unicode 16, and PCRE2
// matches it. Syntax that PCRE2 reads differently is rewritten, or refused by name.
//
// A SplitRegex is immutable, so threads may share it; each thread needs its own Matcher.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lmtrain {

// Returns the pattern in PCRE2's syntax. Throws Error(kData) that names `origin`, the syntax that
// is refused, and its byte.
std::string pcre2_pattern(std::string_view pattern, const std::string& origin);

class SplitRegex {
 public:
  // `origin` names the pattern in messages. Throws Error(kData) for a pattern that is not accepted,
  // does not compile, or can match the empty text.
  SplitRegex(std::string_view pattern, std::string origin);
  ~SplitRegex();
  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;

  // Returns the pattern that the constructor was given.
  const std::string& pattern() const;

  // Memory that find() reuses.
  class Matcher {
   public:
    Matcher();
    ~Matcher();

   private:
    friend class SplitRegex;
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  struct Match {
    size_t begin;  // in bytes
    size_t end;    // greater than begin
  };
  // Finds the first match in `text`, which is valid UTF-8, from byte `from` on, where a character
  // must begin; look-behind sees the text before it. Returns false if there is no match. Throws
  // Error(kData) if the expression needs too much memory, or more steps than a limit that grows
  // with the size of `text`.
  bool find(std::string_view text, size_t from, Matcher& matcher, Match& match) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
