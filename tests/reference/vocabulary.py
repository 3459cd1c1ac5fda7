"""Writes vocabulary/golden.json: words of many scripts, and the pieces that training byte pair encoding on them gives.

"bpe" is the definition in src/tokenizer/bpe_trainer.h, computed slowly here: all pairs are counted anew for each piece. "byte_bpe" is
what the trainer of the library `tokenizers` gives, each word being one word for it.

    VENV/bin/pip install tokenizers==0.23.3 && VENV/bin/python tests/reference/vocabulary.py
"""
import collections
import json
import pathlib
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).parent / "vocabulary"
SCRIPTS = {
    "latin": "etaoinsh", "cyrillic": "\u043e\u0435\u0430\u0438\u043d\u0442\u0441", "greek": "\u03b1\u03bf\u03b9\u03b5\u03c4\u03c3",
    "arabic": "\u0627\u0644\u064a\u0645\u0646\u0648", "devanagari": "\u0915\u0930\u093e\u0928\u093f\u0938\u094d",
    "thai": "\u0e01\u0e32\u0e19\u0e23\u0e48\u0e2d\u0e49", "japanese": "\u306e\u306b\u306f\u3092\u65e5\u672c\u8a9e\u30ab",
    "chinese": "\u7684\u4e00\u662f\u4e0d\u4e86\u5728\u4eba\u6709", "korean": "\uc774\ub2e4\ub294\uc5d0\uc744\ud55c",
    "emoji": "\U0001f600\U0001f602\u2764\ufe0f\U0001f44d", "digits": "0123", "spaces": "  a(", "two_letters": "ab", "one_letter": "a",
}
LENGTHS = {"short": (1, 9, 60), "of_85": (80, 90, 10), "of_300": (300, 300, 3), "one": (1500, 1500, 1)}  # shortest, longest, words


def make_words(script, length):
    generator = random.Random(script + length)
    shortest, longest, number = LENGTHS[length]
    letters = SCRIPTS[script]
    syllables = ["".join(generator.choices(letters, k=generator.randint(1, 4))) for _ in range(12)]
    words = collections.Counter()
    for _ in range(number):
        size = generator.randint(shortest, longest)
        word = " " if script != "spaces" and generator.random() < 0.5 else ""
        while len(word) < size:
            word += generator.choice(syllables)
        words[word[:size]] += generator.choice([1, 1, 2, 7])
    return sorted(words.items())


def may_be_piece(text):
    spaces = len(text) - len(text.lstrip(" "))
    return len(text) <= 16 and (spaces <= 1 or spaces == len(text))


def join(symbols, piece):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] + symbols[i + 1] == piece:
            out.append(piece)
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def learn(words, num_merges):
    splits = [(list(text), count) for text, count in words]
    merges, rank = [], {}
    while len(merges) < num_merges:
        counts = collections.Counter()
        for symbols, count in splits:
            previous = None
            for left, right in zip(symbols, symbols[1:]):
                text = left + right
                overlaps = text == previous
                previous = None if overlaps or not may_be_piece(text) else text
                if may_be_piece(text) and not overlaps:
                    counts[text] += count
        if not counts:
            break
        best = min(counts, key=lambda text: (-counts[text], len(text), text.encode()))
        rank[best] = len(merges)
        merges.append(best)
        for i, (symbols, count) in enumerate(splits):
            symbols = join(symbols, best)
            while True:  # older pieces that can be joined again, the oldest first
                again = [rank[a + b] for a, b in zip(symbols, symbols[1:]) if a + b in rank]
                if not again:
                    break
                symbols = join(symbols, merges[min(again)])
            splits[i] = symbols, count
    return merges


def learn_bytes(words, num_merges):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.train_from_iterator((text for text, count in words for _ in range(count)), trainers.BpeTrainer(
        vocab_size=256 + num_merges, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    return [[model["vocab"][left], model["vocab"][right]] for left, right in model["merges"]]


def main():
    OUT.mkdir(exist_ok=True)
    cases = []
    for script in SCRIPTS:
        for length in LENGTHS:
            words = make_words(script, length)
            cases.append({"name": f"{script} {length}", "words": words, "bpe": learn(words, 60), "byte_bpe": learn_bytes(words, 60)})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (OUT / "golden.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


main()
