"""Writes sentencepiece_added/: a sentencepiece model of Llama 2's shape with the files that chat models have beside it, and the ids
that AutoTokenizer of transformers 5.23 gives for texts with added tokens.

    VENV/bin/pip install transformers==5.23.0 sentencepiece==0.2.3 protobuf && VENV/bin/python tests/reference/sentencepiece_added.py
"""
import json
import os
import pathlib
import shutil
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import sentencepiece  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).parent
OUT = ROOT / "sentencepiece_added"
SIZE = 500

CONFIG = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True,
          "add_eos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": 4096}


def token(content, special=True, **options):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": special, **options}


OWN = {"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")}
CHAT = ["<|im_start|>", "<|im_end|>", "<tool>"]
DECODER = {**OWN, str(SIZE): token(CHAT[0]), str(SIZE + 1): token(CHAT[1]), str(SIZE + 2): token(CHAT[2], False),
           str(SIZE + 3): token("<norm>", False, normalized=True), str(SIZE + 4): token("<l>", lstrip=True),
           str(SIZE + 5): token("<r>", rstrip=True), str(SIZE + 6): token("word", False, single_word=True)}
ADDED = {content: SIZE + i for i, content in enumerate(CHAT)}

# name: the files beside tokenizer.model
FOLDERS = {
    "decoder": {"tokenizer_config.json": {**CONFIG, "legacy": False, "added_tokens_decoder": DECODER}},
    "legacy_unsaid": {"tokenizer_config.json": {**CONFIG, "added_tokens_decoder": DECODER}},
    "split_special": {"tokenizer_config.json": {**CONFIG, "legacy": False, "split_special_tokens": True, "added_tokens_decoder": DECODER}},
    "added_tokens": {"tokenizer_config.json": {**CONFIG, "legacy": False}, "added_tokens.json": ADDED},
    "chat": {"tokenizer_config.json": {**CONFIG, "legacy": False, "eos_token": "<|im_end|>"}, "added_tokens.json": ADDED,
             "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}},
    "legacy": {"tokenizer_config.json": {**CONFIG, "legacy": True, "added_tokens_decoder": DECODER}},
}
# Parts that begin with a space are left out: there the library `tokenizers` adds no dummy prefix, and sentencepiece does.
TEXTS = ["", "Hello", "Hello there", "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n", "Hello <|im_start|> there", "a</s>b",
         "<s>hi</s>", "a <tool> b <norm> c<norm>d", "x  <l>  y  <r>  z", "sword word words word.", "<norm>", "<tool>", "<|im_start", "<|im_end|><|im_end|>",
         "<|im_start|><tool>x<tool><|im_end|>", "word", "a<unk>b", "1234 <tool>5678", "caf\u00e9<tool>\u65e5\u672c\u8a9e<tool>\U0001f600", "<r>   x<l>", "a\tb<tool>\n\n\nc",
         "Line one\n<|im_start|>line two<|im_end|>", "<0x41><tool><0x41>"]
LEGACY_TEXTS = [text for text in TEXTS if "> " not in text and ">\n" not in text]


def main():
    OUT.mkdir(exist_ok=True)
    lines = [line for path in sorted((ROOT.parent.parent / "data/sample").iterdir()) for line in path.read_text("utf-8").split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(OUT / "tokenizer"), model_type="bpe", vocab_size=SIZE, character_coverage=0.99995,
        byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, num_threads=1, minloglevel=2)
    (OUT / "tokenizer.vocab").unlink()
    golden = {}
    for name, files in FOLDERS.items():
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(OUT / "tokenizer.model", folder)
            for file, content in files.items():
                (pathlib.Path(folder) / file).write_text(json.dumps(content), encoding="utf-8")
            tokenizer = AutoTokenizer.from_pretrained(folder)
            texts = LEGACY_TEXTS if name == "legacy" else TEXTS
            ids = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
            golden[name] = {"files": files, "size": len(tokenizer), "bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id,
                            "texts": texts, "ids": ids}
    (OUT / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
