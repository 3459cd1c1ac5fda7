#!/usr/bin/env python3
"""Writes the seeds of the fuzzers to tests/fuzz/corpus/TARGET/seed_*, from files of this repository and of a tiny run.

  tests/fuzz/make_seeds.py [PROGRAM]    PROGRAM: default build/lmtrain

Arrow and Parquet need pyarrow (PYTHONPATH may hold the folder above ARROW_ROOT); without it their seeds stay as they are. Former findings,
corpus/TARGET/finding_*, are never touched. A seed has a few KB at most: what a fuzzer reads at a time is short.
"""

import bz2
import gzip
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests/fuzz/corpus"
REFERENCE = ROOT / "tests/reference"
CUT = b"\n%%\n"
NO_MODEL = "28bca9efa62fe456dcf8a28965d48e4f"  # hash128 of the "tokenizer" of targets/cache.cpp


def write(target, name, *parts):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    data = CUT.join(part if isinstance(part, bytes) else part.encode() for part in parts)
    (folder / f"seed_{name}").write_bytes(data)


def as_json(value):
    return json.dumps(value, ensure_ascii=False)


def without(value, *keys):
    return {key: item for key, item in value.items() if key not in keys}


def run_folder(program, folder):
    """Trains a tiny model with random restart, and returns the run folder and the cache."""
    config = {
        "name": "seeds", "run_dir": str(folder / "run"), "tokenizer": {"train": {"vocab_size": 340}},
        "data": {"train": str(ROOT / "data/sample/*.txt"), "eval_fraction": 0.1, "cache_dir": str(folder / "cache")},
        "sequence": {"max_length": 32, "min_length": 16},
        "model": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                  "num_key_value_heads": 1},
        "batch": {"tokens": 64}, "train": {"steps": 8}, "eval": {"every": "4 steps"}, "checkpoint": {"every": "4 steps"},
        "restart": {"seeds": 2, "tokens": 128}, "threads": 1,
    }
    (folder / "run.json").write_text(as_json(config))
    done = subprocess.run([program, "train", folder / "run.json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} train: {done.stderr}")
    return folder / "run", folder / "cache"


def seeds_of_a_run(program):
    with tempfile.TemporaryDirectory() as name:
        run, cache = run_folder(program, pathlib.Path(name))
        checkpoint = sorted((run / "checkpoints").glob("step_*"))[-1]
        write("run_config", "run", (run / "config.json").read_bytes(),
              next((run / "config_history").iterdir()).read_bytes())
        write("manifest", "run", (checkpoint / "manifest.json").read_bytes())
        state = json.loads((checkpoint / "state.json").read_text())
        write("state", "run", as_json(state))
        state["guard"] |= {"skips_in_a_row": 2, "passed_over": [3, 9], "rollback_step": 4}
        state["loss_scale"] = {"scale": 512.0, "good_in_a_row": 7}
        state["micro"] = {"micro_tokens": 1024, "rows": {"32": 4, "16": 2}}
        write("state", "guarded", as_json(state))
        trial = json.loads(next(run.glob("trials/seed_*/trial.json")).read_text())
        write("trial", "run", as_json(trial | {"seed": 7}))
        write("records", "metrics", (run / "metrics.jsonl").read_bytes()[:3000])
        write("records", "events", (run / "events.jsonl").read_bytes()[:4000])
        index = json.loads(next(cache.glob("index/*.json")).read_text())
        table = json.loads(next(cache.glob("index/*.files")).read_text())
        counts = {"documents": 2, "tokens": 5, "bytes": 9}
        index |= {"fingerprint": "f", "tokenizer_hash": NO_MODEL, "tokenizer": "/proc/self/fd/200/cache/tokenizers/k/tokenizer.model",
                  "sources": [[0, 0], [1, 1]], "eval_sources": [0, 1]}
        write("cache", "run", as_json(index), as_json({"train": counts, "eval": counts}),
              as_json({"hash": NO_MODEL, "vocab_size": 300}), as_json(table))
        shard = next(cache.glob("shards/*/eval.bin"))
        write("shard", "run", shard.read_bytes()[:64] + shard.read_bytes()[64:2000])
        write("block_sums", "run", pathlib.Path(f"{shard}.sums").read_bytes())


def shard_seeds():
    def shard(vocab, documents):
        width = "H" if vocab <= 65536 else "I"
        ids = [token for document in documents for token in document]
        tokens = struct.pack(f"<{len(ids)}{width}", *ids)
        tokens += b"\0" * ((8 - len(tokens) % 8) % 8)
        index, end = b"", 0
        for document in documents:
            end += len(document)
            index += struct.pack("<QQ", end, 3 * len(document))
        return struct.pack("<8sIIQQQ24x", b"LMTSHARD", 1, 2 if width == "H" else 4, vocab, len(documents), len(ids)) + tokens + index

    write("shard", "narrow", shard(300, [[1, 2, 299], [], [5]]))
    write("shard", "wide", shard(100_000, [[1, 99_999], [7, 8, 9]]))
    path = b"/proc/self/fd/200/tokens.bin"
    table = struct.pack("<6Q", 64, 10**18, 4, 20, 2, len(path)) + path
    table += b"\0" * ((8 - len(table) % 8) % 8)
    index = struct.pack("<8Q", 6, 11, 2, 0, 12, 9, 14, 0)
    write("shard", "reference", struct.pack("<8sIIQQQQ16x", b"LMTTOKRF", 1, 1, 40, 2, 12, len(table)) + table + index)


def token_file_seeds():
    ids = struct.pack("<12H", 2, 5, 6, 3, 2, 7, 8, 9, 3, 2, 4, 3)
    write("token_files", "plain", ids)
    write("token_files", "wide", struct.pack("<20I", *range(20)))
    header = b"{'descr': '<u2', 'fortran_order': False, 'shape': (12,), }".ljust(117) + b"\n"
    write("token_files", "numpy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + ids)
    write("token_files", "llmc_gpt2", struct.pack("<3i", 20240520, 1, 12).ljust(1024, b"\0") + ids)
    write("token_files", "llmc_llama3", struct.pack("<3i", 20240801, 7, 3).ljust(1024, b"\0") + struct.pack("<3I", 128000, 5, 6))
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 3, 4) + struct.pack("<3i", 4, 5, 3) + struct.pack("<3q", 0, 8, 18)
    write("token_files", "megatron", ids, index + struct.pack("<4q", 0, 1, 2, 3))


def safetensors_bytes(tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, dtype, shape, part in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * ((8 - len(text) % 8) % 8)
    return struct.pack("<Q", len(text)) + text + data


def safetensors_seeds():
    four = struct.pack("<4f", 1, 2, 3, 4)
    write("safetensors", "two", safetensors_bytes([("a", "F32", [2, 2], four), ("b", "U8", [3], b"abc")], {"format": "pt"}))
    write("safetensors", "empty", safetensors_bytes([]))
    write("safetensors", "scalar", safetensors_bytes([("s", "I64", [], b"\1" * 8), ("z", "BF16", [0, 5], b"")]))
    write("tensor_index", "two", as_json({"metadata": {"total_size": 2}, "weight_map": {
        "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}))


def json_seeds():
    write("json_text", "object", '{"text": "a \\u00e9\\ud83d\\ude00 \\n b", "a": {"b": "c"}, "n": [1, -2.5e3, true, null, {}]}')
    write("json_text", "dotted", '{"a.b":"x","a":{"b":null}}')
    write("json_text", "deep", "[" * 20 + "]" * 20)
    journal = {
        "version": 6,
        "train": {"next_file": 3, "content": [11, 12], "documents": 40, "bytes": 4000, "empty_documents": 1, "invalid_documents": 2,
                  "nul_documents": 3, "blank_lines": 4, "nulls": 5, "json_lines": 37, "bad_lines": 2,
                  "first_bad_lines": ["/a.jsonl:7: not JSON"], "formats": {"jsonl": [2, 30], "text": [1, 10]}},
        "sample": [0, 7], "sources": {"shapes": [[40, 4000, 500, 1, 2**64 - 1]], "order": [15, 16], "last": 0},
        "common": {"documents": [[23, 0], [24, 1]], "lower": [0, 0]},
        "overlap": [[21, 2, 50, True], [22, 1, 60, False]],
        "held_out": {"rules_of_sources": [0, 1], "rules": [[0, 4598175219545276416, []], [256, 0, [31, 32]]]},
    }
    journal["eval"] = journal["train"]
    shard = {"documents": 30, "tokens": 900, "tokens_crc": 2**32 - 1, "tokens_file": [1800, 1], "index_file": [240, 2]}
    write("journal", "counting", as_json(without(journal, "held_out")))
    journal["tokens"] = {"fingerprint": "0" * 32, "in_eval": True, "next": [2, 17], "content": [18, 19], "train": shard, "train_bytes": 3600,
                         "eval_bytes": 400, "files": [0, 12, 30], "eval": shard, "eval_hashes": [160, 6]}
    write("journal", "tokens", as_json(journal))
    saved = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "0123", "_format_type": None,
             "_split": "train"}
    write("dataset_folder", "saved", as_json(saved), as_json({"splits": ["train", "test"]}))


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A field of a protobuf message: an integer, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def small_model(kind, table):
    """A sentencepiece model of a few pieces; the field numbers are those of sentencepiece_model.proto."""
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("\u2581", 1), ("e", 1), ("l", 1), ("o", 1), ("lo", 1), ("\u2581two", 1), ("H", 4)]
    model = b""
    for rank, (text, piece_type) in enumerate(pieces):
        model += field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", -rank) + field(3, piece_type))
    normalizer = (field(2, table) if table else b"") + field(3, 1) + field(4, 1) + field(5, 1)
    return model + field(2, field(3, kind) + field(24, 0)) + field(3, normalizer)


def character_table():
    """A precompiled_charsmap that replaces "a" by "yz" (tests/tokenizer/model_check_test.cpp explains its units)."""
    units = [1 << 31] * 256
    units[0], units[16 ^ 97], units[16 ^ 97 ^ 2] = 16 << 10, 2 << 10 | 1 << 8 | 97, 1 << 31 | 2
    return struct.pack("<257I", 1024, *units) + b"x\0yz\0"


def tokenizer_seeds():
    for name in ("gpt2", "llama3", "qwen2", "smollm", "neox", "o200k", "deepseek", "prefix_space"):
        write("tokenizer_json", name, (REFERENCE / f"tokenizer_json/{name}.json").read_bytes(), "", "", "Hello, it's 2024 \n\n x")
    small = json.loads((REFERENCE / "tokenizer_json/gpt2.json").read_text())
    small["model"]["merges"] = small["model"]["merges"][:5]
    write("tokenizer_json", "with_files", as_json(small), as_json({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}),
          as_json({"pad_token": {"content": "<|endoftext|>"}}), "ab  c")
    model = (REFERENCE / "tokenizer/tokenizer.model").read_bytes()
    pieces, at = [], 0
    while at < len(model) and model[at] == 0x0A:  # field 1: a piece
        pieces.append(model[at:at + 2 + model[at + 1]])
        at += 2 + model[at + 1]
    write("sentencepiece", "bytes", b"".join(pieces[:270]) + model[at:])
    for number, kind in enumerate(("unigram", "bpe", "word", "char"), start=1):
        write("sentencepiece", kind, small_model(number, b""))
        write("sentencepiece", f"{kind}_table", small_model(number, character_table()))
    llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    write("split_regex", "llama3", llama, "It's 12345 o'clock, \n\n isn't it?  ")
    write("split_regex", "gpt2", r"'s|'t|'re| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", "a b  c 12")
    write("split_regex", "other", r"(?:a|b)*?c{2,}|[[:alpha:]&&[^x]]|(?<=x)y|\h|\x{41}", "abacc xy A")
    for number in range(11):  # the patterns of tests/tokenizer/split_patterns.h
        write("split_scanner", f"{number}", bytes([number]) + "It's 12345 O'CLOCK, \n\n isn't iT? \u01c5\u4e2d\u0301 ".encode())


def text_seeds():
    text = "Ein Text.\nZwei Zeilen.\r\n\n".encode()
    lines = b'{"text": "one"}\n{"text": null}\n\n{"text": "two \\u00e9"}\n'
    for name, packed in (("plain", lambda data: data), ("gzip", gzip_bytes), ("zstd", zstd_bytes), ("bzip2", bz2.compress)):
        which = ("plain", "gzip", "zstd", "bzip2").index(name)
        array, csv = b'[{"text": "one"}, null, "two ]"]', b'id,text\n1,"a ""b""\n"\n2,c\n'
        for form, data in ((0, text), (1, text), (2, lines), (3, array), (4, csv), (5, csv.replace(b",", b"\t"))):
            write("texts", f"{name}_{form}", bytes([which + 4 * form]) + packed(data))


def gzip_bytes(data):
    return gzip.compress(data, mtime=0)


def zstd_bytes(data):
    """A frame with one raw block, so that no library is needed."""
    return struct.pack("<IBB", 0xFD2FB528, 0x20, len(data)) + (len(data) << 3 | 1).to_bytes(3, "little") + data


def without_variables(config):
    return config.read_bytes().replace(b"${LMTRAIN_CORPUS}", b"corpus")


def typed_seeds():
    for name in ("tiny", "optimizers", "batching"):
        write("config", name, without_variables(ROOT / f"configs/{name}.json"), "optimizer.lr=1e-3", "train.steps=10")
    for path in sorted((ROOT / "configs/presets").glob("*.json"))[:2]:
        write("config", path.stem, without_variables(path))
    for name in ("gqa_untied", "rope_llama3"):
        write("hf_config", name, (REFERENCE / f"llama/{name}/config.json").read_bytes())
    write("hf_config", "transformers_4", (REFERENCE / "llama/gqa_untied/config_v4.json").read_bytes())
    for name in ("multiple_choice_0", "schema_0", "language_modeling_0"):
        lines = [json.loads(line) for line in (REFERENCE / f"tasks/{name}.jsonl").open()][:3]
        records = [as_json(line | {"shots": [(i + 1) % 3]}) for i, line in enumerate(lines)]
        listed = {"tasks": [{"file": "records.jsonl", "type": name[:-2], "shots": 1, "delimiter": " ", "chance": 0.25}]}
        write("tasks", name, as_json(listed), "\n".join(records) + "\n")
    write("tasks", "list", as_json({"tasks": [{"file": "records.jsonl"}]}),
          '{"query": "a", "choices": ["b", "c"], "gold": 1}\n{"query": "d", "choices": ["e", "f"], "gold": 0, "shots": [0]}\n')
    requests = (REFERENCE / "scoring/requests.jsonl").read_bytes().splitlines(keepends=True)
    write("score_requests", "reference", b"".join(requests[:4]))
    write("score_requests", "short", '{"context": "the ", "continuation": "the"}\n{"text": "a theb"}\n{"context":"","continuation":"a"}\n')
    for name, parts in (("all", ("**", "x")), ("set", ("a/*/[[]y].tx?", "[y].txt")), ("range", ("[!a-w]*.{x}", "x.txt")),
                        ("stars", ("*a*a*b*", "aaaaaaaaab")), ("variable", ("${HOME}/*", "\u00e9"))):
        write("glob", name, *parts)


def table_seeds():
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        print("no pyarrow: the seeds of arrow and parquet stay as they are", file=sys.stderr)
        return
    rows = ["one", None, "", "four \u00e9", "one", "x" * 40] * 2
    columns = {"plain": pa.array(rows), "large": pa.array(rows, pa.large_string()), "binary": pa.array(rows, pa.binary()),
               "view": pa.array(rows, pa.string_view()), "dictionary": pa.array(rows).dictionary_encode()}
    for name, column in columns.items():
        table = pa.table({"id": list(range(len(rows))), "text": column})
        for kind, new in (("stream", pa.ipc.new_stream), ("file", pa.ipc.new_file)):
            for codec in (None, "lz4", "zstd"):
                if codec and name != "plain":
                    continue
                sink = pa.BufferOutputStream()
                with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
                    writer.write_table(table, max_chunksize=5)
                write("arrow", f"{kind}_{name}" + (f"_{codec}" if codec else ""), sink.getvalue().to_pybytes())
        if name == "view":
            continue
        for codec in ("none", "snappy", "gzip", "zstd", "brotli", "lz4"):
            if codec != "snappy" and name != "plain":
                continue
            for version in ("1.0", "2.0"):
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink, compression=codec, use_dictionary=name != "binary", data_page_version=version,
                               row_group_size=5, write_statistics=False, store_schema=False)
                write("parquet", f"{name}_{codec}_{version[0]}", sink.getvalue().to_pybytes())


def id_seeds():
    tables = REFERENCE / "tables"
    for name, which in (("ids/int32.parquet", 0), ("padded/labels.parquet", 0), ("ids/stream.arrow", 1), ("ids/file.feather", 1),
                        ("ids/mds_int32/shard.00002.mds", 2), ("ids/mds_dynamic/shard.00002.mds", 2), ("ids/mds_bytes/shard.00002.mds", 2),
                        ("text/mds/shard.00001.mds", 2), ("ids/litdata_int32/chunk-0-1.bin", 3)):
        write("id_tables", name.replace("/", "_"), bytes([which]) + (tables / name).read_bytes())


def main():
    if len(sys.argv) > 1 and sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return
    program = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/lmtrain"
    seeds_of_a_run(program)
    shard_seeds()
    token_file_seeds()
    safetensors_seeds()
    json_seeds()
    tokenizer_seeds()
    text_seeds()
    typed_seeds()
    table_seeds()
    id_seeds()


if __name__ == "__main__":
    main()
