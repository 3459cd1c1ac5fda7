// A regular expression that cuts text, as the pre-tokenizers of Hugging Face's `tokenizers` use it.
// It is written in the syntax of Oniguruma (Ruby), with the properties of Unicode 16, and is
// matched by PCRE2. Of Oniguruma's syntax the part is accepted in which both libraries agree, or
// which can be rewritten; anything else is refused by name.
//
// A SplitRegex is immutable, so threads may share it; each thread brings a Matcher of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lmtrain {

// Returns the pattern in PCRE2's syntax. Throws Error(kData) with a message that begins with
// `origin` and names what is not accepted and its byte.
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
  // must begin; look-behind sees the text before it. Returns false where there is none. Throws
  // Error(kData) when the expression needs too much time or memory for the text. A call with `from`
  // 0 stores in `matcher` how much time the calls after it may take, by the size of the text; so it
  // must be the first call for each text.
  bool find(std::string_view text, size_t from, Matcher& matcher, Match& match) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
