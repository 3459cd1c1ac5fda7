"""The work of bench_tokenizer.sh, which says what the arguments mean."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
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
    parser.add_argument("documents", nargs="*")
    options = parser.parse_args()
    options.documents = options.documents or [options.default_documents]
    work = options.work[-1]
    work.mkdir(parents=True, exist_ok=True)
    result = (large if options.large else speed)(options, work)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


main()
