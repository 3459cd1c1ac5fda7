"""The work of bench_tokenizer.sh, which says what the arguments mean."""
import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import time


def harness(options, *words):
    command = [options.harness, *map(str, words)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(result.stdout)


def hugging_face(model, work, texts):
    """MB/s of the Rust library on the same documents, one thread; None where it is not installed."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return None
    folder = work / "hf"
    folder.mkdir(exist_ok=True)
    shutil.copy(model, folder / "tokenizer.model")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "LlamaTokenizer", "legacy": False, "add_prefix_space": False, "add_bos_token": False,
        "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "split_special_tokens": True}))
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer

    def run():
        start = time.perf_counter()
        for text in texts:
            tokenizer.encode(text, add_special_tokens=False)
        return time.perf_counter() - start

    return run


def spm_encode(model, work, texts):
    """The program of sentencepiece; it encodes lines, not documents."""
    program = shutil.which("spm_encode")
    if program is None:
        return None
    file = work / "lines.txt"
    file.write_text("\n".join(texts), encoding="utf-8")

    def run():
        start = time.perf_counter()
        subprocess.run([program, f"--model={model}", "--output_format=id", file], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    return run


def speed(options, work):
    model = options.model
    if model is None:
        model = work / "bench.model"
        harness(options, "train", "bpe", 16384, model, *options.documents)
    documents = work / "documents.json"
    harness(options, "texts", documents, *options.documents)
    texts = json.loads(documents.read_text(encoding="utf-8"))
    others = {"tokenizers": hugging_face(model, work, texts), "spm_encode": spm_encode(model, work, texts)}
    rounds, megabytes = {}, None
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        ours = harness(options, "speed", model, *options.documents)
        if ours["differing_documents"]:
            sys.exit(f"{ours['differing_documents']} documents have other ids than sentencepiece's")
        megabytes = ours["bytes"] / 1e6
        for name, value in ours["seconds"].items():
            rounds.setdefault(name, []).append(value)
        for name, run in others.items():
            if run is not None:
                rounds.setdefault(name, []).append(run())
    rates = {name: [megabytes / s for s in seconds] for name, seconds in rounds.items()}
    medians = {name: statistics.median(values) for name, values in rates.items()}
    base = medians["sentencepiece"]
    threads = [two / one for one, two in zip(rates["pipeline_1"], rates["pipeline_2"])]  # within a round: both met the same machine
    result = {"documents": ours["documents"], "bytes": ours["bytes"], "tokens": ours["tokens"], "differing_documents": 0, "mb_per_s": rates,
              "median_mb_per_s": medians, "times_sentencepiece": {name: value / base for name, value in medians.items()},
              "two_threads_over_one": threads}
    labels = {"sentencepiece": "sentencepiece, library, by document", "spm_encode": "spm_encode, by line", "tokenizers": "Hugging Face tokenizers, by document",
              "cold": "lmtrain, empty cache", "warm": "lmtrain, second pass", "pipeline_1": "lmtrain from files, 1 thread",
              "pipeline_2": "lmtrain from files, 2 threads"}
    print(f"{ours['documents']} documents, {megabytes:.1f} MB, {ours['tokens']} tokens; 0 documents differ from sentencepiece")
    print(f"{'one thread unless stated':38} {'MB/s':>8} {'x sp':>7}   of {options.rounds} rounds")
    for name, label in labels.items():
        if name in medians:
            print(f"{label:38} {medians[name]:8.1f} {medians[name] / base:7.1f}   {min(rates[name]):.1f} to {max(rates[name]):.1f}")
    print(f"two threads over one, within a round: {statistics.median(threads):.2f} ({min(threads):.2f} to {max(threads):.2f})")
    return result


def large(options, work):
    model = options.model
    if model is None:
        model = work / "bench.model"
        harness(options, "train", "bpe", 16384, model, *options.documents)
    sizes = sorted(float(size) for size in options.sizes.split())
    text = work / "text"
    text.mkdir()
    print(f"making {sizes[-1]:g} GB of text", file=sys.stderr)
    harness(options, "corpus", int(sizes[-1] * 1e9), text, *options.documents)
    files = sorted(text.iterdir())
    result = []
    print(f"{'GB':>6} {'seconds':>9} {'MB/s':>7} {'peak MB':>8}   {options.threads} threads, reading twice, from JSON lines")
    for size in sizes:
        part = work / "part"
        part.mkdir()
        for file in files[: max(1, round(len(files) * size / sizes[-1]))]:
            (part / file.name).symlink_to(file)
        cache = work / "cache"
        row = harness(options, "prepare", model, options.threads, part, cache)
        result.append(row)
        print(f"{row['bytes'] / 1e9:6.2f} {row['seconds']:9.1f} {row['bytes'] / 1e6 / row['seconds']:7.1f} {row['peak_bytes'] / 1e6:8.0f}", flush=True)
        shutil.rmtree(part)
        shutil.rmtree(cache)
    return result


# ------------------------------------------------------------------------------------------------------------------
# Rules that cut text, one vocabulary for all.

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}|" +
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
RULES = {"gpt2": GPT2, "llama3": LLAMA3, "qwen2": LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"), "o200k": O200K, "smollm": None}


def pre_tokenizer(rule):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": rule in ("gpt2", "smollm")}
    if rule == "gpt2":
        return byte_level
    split = {"type": "Split", "pattern": {"Regex": RULES[rule]}, "behavior": "Isolated", "invert": False}
    first = {"type": "Digits", "individual_digits": True} if rule == "smollm" else split
    return {"type": "Sequence", "pretokenizers": [first, byte_level]}


def generated(letters, size, word, separator, seed):
    """Words of these letters, in a distribution as of a language: the word of rank n is 1/n as frequent as the first."""
    source = random.Random(seed)
    weights = [1 / (i + 1) for i in range(len(letters))]
    words = ["".join(source.choices(letters, weights, k=source.randint(*word))) for _ in range(20000)]
    sums = list(itertools.accumulate(1 / (i + 1) for i in range(len(words))))
    texts, left = [], size
    while left > 0:
        text = separator.join(source.choices(words, cum_weights=sums, k=1000))
        texts.append(text)
        left -= len(text.encode())
    return texts


def letters_of(*ranges):
    return [chr(c) for first, last in ranges for c in range(first, last + 1)]


def texts_of_rules(options, work):
    size = int(options.megabytes * 1e6)
    documents = work / "documents.json"
    harness(options, "texts", documents, *options.documents)
    code, left = [], size
    for text in json.loads(documents.read_text(encoding="utf-8")):
        if left <= 0:
            break
        code.append(text)
        left -= len(text.encode())
    return {"code": code,
            "Latin": generated(list("etaoinshrdlcumwfgypbvk"), size, (2, 9), " ", 1),
            "Cyrillic": generated(letters_of((0x430, 0x44F)), size, (2, 10), " ", 2),
            "Chinese": generated(letters_of((0x4E00, 0x5400)), size, (1, 3), "", 3),
            "Thai": generated(letters_of((0xE01, 0xE2E), (0xE30, 0xE3A), (0xE40, 0xE49)), size, (2, 8), "", 4),
            "Hindi": generated(letters_of((0x905, 0x939), (0x93E, 0x94D)), size, (2, 8), " ", 5),
            "emoji": generated(letters_of((0x1F300, 0x1F64F)), size, (1, 3), " ", 6),
            "long words": generated(list("etaoinshrdlcumwfgypbvk"), size, (250, 350), " ", 7)}


def bytes_of_tokens(vocabulary):
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    byte_of = {**{chr(byte): byte for byte in shown}, **{chr(256 + i): byte for i, byte in enumerate(others)}}
    return {bytes(byte_of[c] for c in token): id for token, id in vocabulary.items() if all(c in byte_of for c in token)}


def processor_time(work):
    """Seconds of this process, all threads; what else the machine does costs caches alone."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def libraries(rule, path, value):
    """For each library a function from a list of texts to lists of ids, with its version."""
    import gigatoken
    import tiktoken
    import tokenizers
    from importlib.metadata import version
    try:
        giga = gigatoken.Tokenizer.from_json(path.read_bytes())
        yield f"gigatoken {version('gigatoken')}", lambda texts: giga.encode_batch(texts, parallel=False)
    except RuntimeError as error:  # it knows some rules alone
        print(f"{rule:8} gigatoken {version('gigatoken')} does not read this rule: {str(error).splitlines()[0][:80]}", flush=True)
    if RULES[rule]:
        added = {token["content"] for token in value["added_tokens"]}
        ranks = bytes_of_tokens({token: id for token, id in value["model"]["vocab"].items() if token not in added})
        tik = tiktoken.Encoding(rule, pat_str=RULES[rule], mergeable_ranks=ranks, special_tokens={})
        yield f"tiktoken {version('tiktoken')}", lambda texts: [tik.encode_ordinary(text) for text in texts]
    hf = tokenizers.Tokenizer.from_file(str(path))
    yield f"tokenizers {version('tokenizers')}", lambda texts: [hf.encode(text, add_special_tokens=False).ids for text in texts]


def rules(options, work):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = texts_of_rules(options, work)
    sample = work / "sample"
    sample.mkdir()
    for name, parts in texts.items():
        (sample / f"{name}.txt").write_text("\n".join(parts), encoding="utf-8")
    trained = work / "tokenizer.json"
    harness(options, "train", "byte_bpe", options.vocabulary, trained, *sorted(sample.iterdir()))
    value = json.loads(trained.read_text(encoding="utf-8"))
    print(f"{options.vocabulary} tokens; {options.megabytes:g} MB of each text; MB a second of one processor")
    print("cold: from an empty cache; new: the second half after the first; again: all a second time")
    print(f"{'rule':8} {'text':11} {'way':18} {'cold':>7} {'new':>7} {'again':>7}  documents with other ids than lmtrain's")
    rows = []

    def add(rule, text, way, rates, differing):
        rows.append([rule, text, way, *rates, differing])
        print(f"{rule:8} {text:11} {way:18} {' '.join(f'{rate:7.1f}' for rate in rates)}  {differing or ''}", flush=True)

    for rule in options.only.split() or RULES:
        value["pre_tokenizer"] = pre_tokenizer(rule)
        path = work / f"{rule}.json"
        path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
        for name, parts in texts.items():
            packed = work / "texts.bin"
            documents = [text.encode() for text in parts]
            packed.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in documents))
            ours = harness(options, "ids", path, packed, work / "ids.bin")
            ids = read_ids(work / "ids.bin")
            size, new_size = ours["bytes"] / 1e6, ours["new_bytes"] / 1e6
            if new_size == 0:
                sys.exit(f"{name}: the last document holds the middle of the text; give more documents, or more --megabytes")
            add(rule, name, "lmtrain", [size / ours["seconds"], new_size / ours["new_seconds"], size / ours["warm_seconds"]], 0)
            begins = itertools.accumulate((len(data) for data in documents), initial=0)
            half = next(i for i, begin in enumerate(begins) if 2 * begin >= ours["bytes"])
            for way, encode in libraries(rule, path, value):
                first, found = processor_time(lambda: encode(parts[:half]))
                second, more = processor_time(lambda: encode(parts[half:]))
                warm, _ = processor_time(lambda: encode(parts))
                differing = sum(list(a) != list(b) for a, b in zip([*found, *more], ids))
                add(rule, name, way, [size / (first + second), new_size / second, size / warm], differing)
    return {"rows": rows, "opening_seconds": ours["open_seconds"]}


def read_ids(path):
    data, at, documents = path.read_bytes(), 0, []
    while at < len(data):
        count, = struct.unpack_from("<I", data, at)
        documents.append(struct.unpack_from(f"<{count}i", data, at + 4))
        at += 4 + 4 * count
    return documents


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--harness", required=True)
    parser.add_argument("--default-documents", required=True)
    parser.add_argument("--work", type=pathlib.Path, action="append")
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--sizes", default="1 2 5 10")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument("--only", default="")
    parser.add_argument("--python")
    parser.add_argument("documents", nargs="*")
    options = parser.parse_args()
    options.documents = options.documents or [options.default_documents]
    work = options.work[-1]
    work.mkdir(parents=True, exist_ok=True)
    result = (large if options.large else rules if options.rules else speed)(options, work)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


main()
