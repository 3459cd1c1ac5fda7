"""Writes sentencepiece_unigram/: unigram models and the ids that sentencepiece 0.2.3 gives for texts whose ties earlier releases
end otherwise. Models and texts are made here from a word list of our own.

    VENV/bin/pip install sentencepiece==0.2.3 && VENV/bin/python tests/reference/sentencepiece_unigram.py
"""
import hashlib
import json
import pathlib
import random

import sentencepiece

assert sentencepiece.__version__ == "0.2.3"
OUT = pathlib.Path(__file__).parent / "sentencepiece_unigram"

KANA = "のにはをたがでてとしれさいるらりもなあこまうつすかくきえそよわおけみせやんほへめ日本語文字人大中学年"


def document(rng, length):
    """Letters without any words, so that many ways to cut them are about as likely."""
    weights = [1 / (i + 3) for i in range(len(KANA))]
    return "".join(rng.choices(KANA, weights, k=length)) + rng.choice("。、\n ")


NASTY = ["", " ", "  ", "a", "日本語", "私は学生です。", "ﾊﾝｶｸ ｶﾅ と全角ＡＢＣ１２３", "か\u3099き\u3099", "㍿①Ⅳ", "🙂🙂 👩‍👩‍👧", "\t tabs\n\nlines\r\n", "▁ mark▁",
         " <sep> ", "<sep><sep>", "<sep", "x<sep>y[ID]z", "abab", "aaaa", "aaa", "ababa<sep>", "𠮷野家で𠮷", "Hello, world", "  two  spaces  ", "\u3000全角の空白\u3000",
         "日" * 70, "は" * 300, "ー" * 40, "\u00a0x", "<s>x</s>", "<unk>", "<0x41>"]

# name: options of the trainer
MODELS = {
    "nfkc": {},  # with a table of characters, a dummy prefix, and <unk>
    "lossless": {"byte_fallback": True, "normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False,
                 "allow_whitespace_only_pieces": True},
    "symbols": {"user_defined_symbols": ["<sep>", "[ID]", "ab", "aba", "aa"], "byte_fallback": True, "normalization_rule_name": "identity"},
    "suffix": {"treat_whitespace_as_suffix": True, "user_defined_symbols": ["<sep>"], "normalization_rule_name": "identity"},
}


def main():
    OUT.mkdir(exist_ok=True)
    rng = random.Random(42)
    lines = [document(rng, rng.randint(5, 60)) for _ in range(4000)] + ["Hello world a b c ab aba 0 1 2 3 4 5 6 7 8 9"] * 5
    texts = NASTY + ["".join(document(rng, rng.randint(5, 60)) for _ in range(n)) for n in (1, 3, 10, 30, 100, 300)]
    texts.append("".join(texts) * 8)  # so long that scores are counted anew
    golden = {"texts": texts[:-1], "ids": {}, "decoded": {}, "ids_of_last": {}}
    for name, options in MODELS.items():
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=str(OUT / name), model_type="unigram",
                                                 vocab_size=600, hard_vocab_limit=False, num_threads=1, minloglevel=2, **options)
        (OUT / f"{name}.vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(model_file=str(OUT / f"{name}.model"))
        golden["ids"][name] = [processor.encode(text) for text in texts[:-1]]
        golden["decoded"][name] = [processor.decode(ids) for ids in golden["ids"][name]]
        last = processor.encode(texts[-1])
        golden["ids_of_last"][name] = hashlib.sha256(",".join(map(str, last)).encode()).hexdigest()
    (OUT / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
