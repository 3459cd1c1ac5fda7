// The settings of `tokenizer`.
#include "config/settings.h"

namespace lmtrain {

void add_tokenizer_settings(SettingTable& t, TokenizerConfig& c) {
  t.section("tokenizer", "How text becomes ids.");
  t.add("tokenizer.model", &c.model,
        "Path of a sentencepiece .model, or of a Hugging Face tokenizer.json of BPE.")
      .as(SettingKind::kPath)
      .null_is("train one (with init_from: the tokenizer.model or tokenizer.json in its folder)");
  t.add("tokenizer.allow_mismatch", &c.allow_mismatch,
        "With init_from: true accepts a tokenizer that is not that of the weights, a new one or "
        "another. Its ids mean nothing to the given embedding and head.");
  t.section("tokenizer.train", "The tokenizer that is trained when none is given.");
  t.add("tokenizer.train.vocab_size", &c.train.vocab_size, "Number of pieces.")
      .range(32, 4'000'000)
      .used_if("tokenizer.model", {"null"});
  t.add("tokenizer.train.type", &c.train.type,
        "bpe and unigram give a sentencepiece model; byte_bpe gives a Hugging Face tokenizer.json "
        "of "
        "byte-level BPE, cut like Llama 3's.")
      .used_if("tokenizer.model", {"null"})
      .from("Kudo & Richardson 2018; byte_bpe: Radford et al. 2019");
  t.add("tokenizer.train.byte_fallback", &c.train.byte_fallback,
        "256 byte pieces, so that every text survives encoding and decoding; byte_bpe always has "
        "them.")
      .used_if("tokenizer.train.type", {TokenizerType::kBpe, TokenizerType::kUnigram});
  t.add("tokenizer.train.sample", &c.train.sample, "Bytes of text to learn from.")
      .as(SettingKind::kBytes)
      .range(1, 0x1p53)
      .used_if("tokenizer.model", {"null"});
  t.add("tokenizer.add_bos", &c.add_bos, "Begin each document with BOS.")
      .null_is(
          "what the given tokenizer's files say (add_bos_token, the template of tokenizer.json; a "
          "sentencepiece model with BOS alone: true); true for one that is trained",
          "auto");
  t.add("tokenizer.add_eos", &c.add_eos, "End each document with EOS.")
      .null_is("true, but for a given tokenizer that has no EOS", "auto");
}

}  // namespace lmtrain
