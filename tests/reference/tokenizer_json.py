"""Writes tokenizer_json/: small BPE tokenizers under the rules of well-known models, the ids that the library `tokenizers` gives for
nasty texts, and the texts that it gives for ids, random ones among them. The rules (pre-tokenizers, normalizers) are those of the models' public tokenizer.json; the
vocabularies are trained here on texts of the clone. Also what the library's trainer gives, as tokenizer.train.type "byte_bpe" must.

    VENV/bin/pip install tokenizers==0.23.3 && VENV/bin/python tests/reference/tokenizer_json.py
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).parent
OUT = ROOT / "tokenizer_json"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{END}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{END}|" +
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+"]


def byte_level(prefix=False, regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def splits(*patterns, behavior="isolated", invert=False):
    steps = [pre_tokenizers.Split(Regex(pattern), behavior, invert) for pattern in patterns]
    return pre_tokenizers.Sequence([*steps, byte_level(regex=False)])


def special(content, **options):
    return AddedToken(content, special=True, **options)


# name: normalizer, pre-tokenizer, added tokens
RULES = {
    "gpt2": (None, byte_level(), [special("<|endoftext|>", normalized=True)]),
    "prefix_space": (None, byte_level(prefix=True), [
        special("<|endoftext|>"), special("<mask>", lstrip=True), AddedToken("<r>", rstrip=True),
        AddedToken("<b>", lstrip=True, rstrip=True), AddedToken("word", single_word=True), AddedToken("  ")]),
    "neox": ("NFC", byte_level(), [special("<|endoftext|>"), *(AddedToken(" " * n, normalized=True) for n in (4, 3, 2)),
                                   AddedToken("e\u0301x", normalized=True)]),
    "llama3": (None, splits(LLAMA3), [special("<|begin_of_text|>"), special("<|end_of_text|>"), special("<|eot_id|>")]),
    "qwen2": ("NFC", splits(QWEN2), [special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>"),
                                     AddedToken("<think>", normalized=False)]),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()]),
               [special("<|endoftext|>"), special("<repo_name>")]),
    "o200k": (None, splits(O200K, behavior="removed", invert=True), [special("<|endoftext|>")]),
    "deepseek": (None, splits(*DEEPSEEK), [special("<\uff5cbegin\u2581of\u2581sentence\uff5c>")]),
    # As the published file: no token for a byte that UTF-8 never has, added tokens before and behind the vocabulary.
    "olmo": ("NFC", byte_level(), [*(AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)),
                                   AddedToken("|||EMAIL_ADDRESS|||", normalized=False), special("<|endoftext|>")]),
    # Special tokens in the vocabulary, with ids that leave holes.
    "cl100k": (None, splits(LLAMA3, behavior="removed", invert=True), [special("<|endoftext|>"), special("<|fim_prefix|>"), special("<|endofprompt|>")]),
}
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
RULES["bloom"] = (None, splits(BLOOM), [special("<s>"), special("</s>")])
RULES["falcon"] = (None, pre_tokenizers.Sequence([
    pre_tokenizers.Punctuation("contiguous"), byte_level(), pre_tokenizers.Digits(individual_digits=False),
    pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated", False)]), [special(">>TITLE<<"), special("<|endoftext|>")])

# Models of characters with tokens for bytes. name: normalizer, pre-tokenizer to train with, pre-tokenizer, decoder, added tokens
MARK = "\u2581"
WORDS = pre_tokenizers.Metaspace(prepend_scheme="always")
EVERY_KIND = [AddedToken("<L>", lstrip=True), AddedToken("<R>", rstrip=True, normalized=False), AddedToken("Word", single_word=True),
              AddedToken("<b>", lstrip=True, rstrip=True), AddedToken("\u212bx", normalized=True), AddedToken("<mask>", lstrip=True, normalized=False)]


def sentencepiece_decoder(*more):
    return decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), *more])


CHARACTER_RULES = {
    "llama2": (normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), WORDS, None,
               sentencepiece_decoder(decoders.Strip(" ", 1, 0)), [special("<s>"), special("</s>"), AddedToken("<unk>", normalized=True), AddedToken("  ")]),
    "mistral": (None, WORDS, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), sentencepiece_decoder(decoders.Strip(" ", 1, 0)),
                [special("<s>"), special("</s>"), special("[INST]")]),
    "gemma": (normalizers.Replace(" ", MARK), pre_tokenizers.Split(MARK, "merged_with_next"), pre_tokenizers.Split(" ", "merged_with_previous"),
              sentencepiece_decoder(), [special("<bos>"), AddedToken("\n\n", normalized=False), AddedToken(MARK * 2, normalized=False)]),
    "lowercase": (normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")]), WORDS,
                  pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Digits(individual_digits=True)]),
                  decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), EVERY_KIND),
    # No bytes: <unk> for each, or for a run.
    "unknown": (normalizers.NFKD(), WORDS, pre_tokenizers.Metaspace(prepend_scheme="never"), decoders.Metaspace(prepend_scheme="never"), []),
    "fused": (normalizers.NFD(), WORDS, pre_tokenizers.Split(Regex("[a-c]"), "merged_with_previous", True), decoders.Fuse(), []),
}
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


NEVER = [0xC0, 0xC1, *range(0xF5, 0x100)]  # bytes

TEXTS = [
    "", " ", "  ", "a", " a", "  a", "a ", "a  ", "Hello, world!", "Hello  world", "tabs\tand\t\ttabs", "line\nline", "a\r\nb\r\n\r\nc",
    "\n", "\n\n", "\r", "\r\n ", "a \n b", "a\n   b", "   \n   a", "trailing   \n", "\u00a0a\u00a0\u00a0b", "\u3000a", "a\u2028b\u2029c",
    "a\u180eb", "a\u200bb", "a\x85b", "a\x0b\x0cb", "\x1c\x1d", "don't DON'T Don'T", "I'm I'M we'll WE'LL you've YOU'VE they're THEY'RE he'd HE'D",
    "it's IT'S '\u017f 'S", "'s", "''s", "x's's", "It\u2019s", "1", "12", "123", "1234", "12345", "1234567890", "3.14", "-1e-5", "1,234,567",
    "\u0661\u0662\u0663\u0664", "\u00b2\u00bd\u2167", "\u4e00\u4e8c\u4e09", "a1b2c3", "v1.2.3-rc4", "caf\u00e9", "cafe\u0301", "e\u0301x", "\u00e9x",
    "\u212b\u2126", "A\u030a", "a\u0327\u0301", "a\u0301\u0327", "\u0344", "\u1e9b\u0323", "\u0958", "\u0915\u093c", "\u0fb2\u0f71\u0f80",
    "\u304b\u3099", "\u304c", "\u1112\u1161\u11ab", "\ud55c\uae00", "\uac00\u11a8", "\u0eba\u0327", "\u1abf\u0eba", "\u0301a", "\u2adc", "\u2329",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0", "\u4e2d\u6587\uff0c\u6807\u70b9\u3002", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5", "\u0440\u0443\u0441\u0441\u043a\u0438\u0439",
    "\u05e9\u05c1\u05dc\u05d5\u05b9\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22", "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\U0001f44d\U0001f3fd!", "\U0001d400\U0001d41a",
    "\U00010400\U00010428", "\U000323af", "\U00010d41", "\U0001e030", "\U0001cc00", "\U0010ffff", "\ue000", "\uffff", "\ufffd", "\ufeffbom",
    "\x00", "a\x00b", "\x01\x02", "\x7f", "!", "?!?!", "...", "//", "/* x */", "-->", "==", "{}[]()", "\\n", "\"quoted\"", "#include <a.h>\n",
    "def f(x):\n    return x\n", "\tif (a) {\n\t\tb();\n\t}\n", "a/b/c.txt", "https://example.com/?q=1&r=2", "user@example.com", "$5.00",
    "camelCase PascalCase SCREAMING_CASE snake_case", "HTTPServer's", "\u01c5\u02b0\u00aa", "\u0130\u0131\u00df", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the the the", "word", "words word sword", "_word", "word.", "\u00e9word", "word\u0301", "word\u200d", "     ", "x     y", "    x",
    "<|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b", "<|endoftext", "<|endoftext|><|endoftext|>", "<|begin_of_text|>a<|eot_id|>",
    "<|im_start|>user\nhi<|im_end|>\n", "<think>a</think>", "a <mask> b", "a   <mask>b", "x<r>     y", "x  <b>  y", "x\u3000<b>\u00a0y", "<r>  <r>  <mask>",
    "x <L> y", "x<R>   y", " word", "<L><R>", "\u212bx \u00c5x", "[INST] a [/INST]", ">>TITLE<< a", "12 1234567 \u00bd\u00b2", "a.b,,c!? d", "\u0964 \u06d4\u060c",
    "\u2581", "a\u2581b", " \u2581 a", "\U0001f600\U0001f600 \U0001f600", "\u0130 \u1e9e \ufb01 \u2126 \u3392", "<0x41> <0x0A>", "\u4f60\u597d", "<unk> a",
    "<repo_name>x", "<\uff5cbegin\u2581of\u2581sentence\uff5c>a",
]


def build(name, texts):
    normalizer, pre_tokenizer, added = RULES[name]
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    if normalizer:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    # GPT-2's special token is part of the vocabulary.
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if name == "olmo":
        alphabet = [character for character in alphabet if character not in map(chr, NEVER)]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=alphabet, show_progress=False,
        special_tokens={"gpt2": ["<|endoftext|>"], "olmo": ["|||IP_ADDRESS|||", "<|padding|>"]}.get(name, [])))
    if name == "cl100k":
        value = json.loads(tokenizer.to_str())
        value["model"]["vocab"].update({token.content: 421 + 3 * i for i, token in enumerate(added)})
        tokenizer = Tokenizer.from_str(json.dumps(value))
    tokenizer.add_tokens([token for token in added if not token.special])
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if name == "llama3":
        begin = "<|begin_of_text|>"
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A $B:1", special_tokens=[(begin, tokenizer.token_to_id(begin))])])
    return tokenizer


def build_of_characters(name, texts):
    normalizer, words, pre_tokenizer, decoder, added = CHARACTER_RULES[name]
    has_bytes = name not in ("unknown", "fused")
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = words
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700 if has_bytes else 300, limit_alphabet=90, show_progress=False, special_tokens=["<unk>"] + BYTES * has_bytes))
    value = json.loads(tokenizer.to_str())
    # "<0x41>" and its like are no added tokens; llama2 lacks one of them, so that <unk> and bytes stand side by side.
    value["added_tokens"] = value["added_tokens"][:1]
    value["model"].update(byte_fallback=has_bytes, fuse_unk=name in ("llama2", "fused"), ignore_merges=name == "gemma")
    tokenizer = Tokenizer.from_str(json.dumps(value))
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    else:
        value = json.loads(tokenizer.to_str())
        value["pre_tokenizer"] = None
        value["model"]["vocab"]["<unused>"] = value["model"]["vocab"].pop("<0xF0>")
        tokenizer = Tokenizer.from_str(json.dumps(value))
    tokenizer.decoder = decoder
    for token in added:
        tokenizer.add_tokens([token])
    return tokenizer


def trained(texts, vocab_size, add_bos):
    """A tokenizer as tokenizer.train.type "byte_bpe" gives it."""
    begin, end = "<|begin_of_text|>", "<|end_of_text|>"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splits(LLAMA3)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[begin, end]))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if add_bos:
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A $B:1", special_tokens=[(begin, tokenizer.token_to_id(begin))])])
    return tokenizer


def decoded(tokenizer, of_texts):
    """[ids, text] of texts, and of random ids."""
    generator = random.Random(2)
    known = sorted(tokenizer.get_vocab(with_added_tokens=True).values())
    bytes_too = [tokenizer.token_to_id(token) for token in BYTES if tokenizer.token_to_id(token) is not None] or known
    lists = [ids for ids in of_texts if ids][::3]
    lists += [[generator.choice(generator.choice([known, bytes_too])) for _ in range(generator.randint(1, 12))] for _ in range(40)]
    return [[ids, tokenizer.decode(ids)] for ids in lists]


def few_letters():
    """Words in which many pairs overlap, and many have equal counts."""
    generator = random.Random(1)
    words = ["".join(generator.choice("ab" if i % 3 else "aaab") for _ in range(generator.randint(1, 14))) for i in range(400)]
    return " ".join(word for word in words for _ in range(generator.randint(1, 4)))


def main():
    OUT.mkdir(exist_ok=True)
    samples = [path.read_text(encoding="utf-8") for path in sorted((ROOT.parent.parent / "data/sample").iterdir())]
    golden = {"texts": [text.encode().hex() for text in TEXTS], "ids": {}, "decoded": {}}
    for name in [*RULES, *CHARACTER_RULES]:
        tokenizer = (build if name in RULES else build_of_characters)(name, samples + TEXTS)
        text = tokenizer.to_str(pretty=False)
        if name == "deepseek":  # merges as older files spell them
            value = json.loads(text)
            value["model"]["merges"] = [" ".join(merge) for merge in value["model"]["merges"]]
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            tokenizer = Tokenizer.from_str(text)
        (OUT / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        golden["ids"][name] = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
        golden["decoded"][name] = decoded(tokenizer, golden["ids"][name])
    # Files as they are, without translated line ends.
    plain = [path.read_bytes().decode() for path in sorted((ROOT.parent.parent / "data/sample").iterdir())]
    tokenizer = trained(plain, 800, add_bos=True)
    tokenizer.save(str(OUT / "byte_bpe.json"))
    golden["ids"]["byte_bpe"] = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    (OUT / "few_letters.txt").write_text(few_letters())
    tokenizer = trained([few_letters()], 600, add_bos=False)
    tokenizer.save(str(OUT / "few_letters.json"))
    (OUT / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


main()
