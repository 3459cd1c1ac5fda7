"""Writes tables/: the same documents in every container that other libraries write, as token ids and as text.

tables/documents.json holds the documents: "ids" (of the vocabulary of tokenizer/tokenizer.model; none is empty) and "texts".
tables/ids/NAME and tables/text/NAME are files or folders that hold them, by datasets, pyarrow, MosaicML's streaming and litdata;
tables/padded/NAME hold the same ids with padding and the columns that belong to it. One container a folder or file.

    VENV/bin/pip install datasets==5.2.0 pyarrow==26.0.1 litdata==0.2.76 mosaicml-streaming==0.13.0
    VENV/bin/python tests/reference/tables.py
"""
import csv
import io
import json
import pathlib
import random
import shutil

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parent / "tables"
PIECES = 384  # of the tokenizer


def make_documents():
    generator = random.Random(49)
    ids = [[generator.randrange(3, PIECES) for _ in range(generator.choice([1, 2, 7, 30]))] + [2] for _ in range(40)]
    texts = []
    for i in range(40):
        texts.append([f"document {i}\nof \"two\" lines, and a comma", f"tab\tand \r return {i}", f"äöü 😀 {i}", f"  {i}  ",
                      "" if i == 4 else f"plain {i}"][i % 5])
    return ids, texts


def write_arrow(ids, texts):
    types = {"int32": pa.list_(pa.int32()), "int64": pa.list_(pa.int64()), "uint16": pa.large_list(pa.uint16()),
             "uint32": pa.list_(pa.uint32()), "int16": pa.large_list(pa.int16())}
    for name, type in types.items():
        table = pa.table({"id": list(range(len(ids))), "input_ids": pa.array(ids, type)})
        pq.write_table(table, OUT / f"ids/{name}.parquet", row_group_size=17, data_page_size=128)
    pq.write_table(table, OUT / "ids/pages_v2.parquet", data_page_version="2.0", data_page_size=128, compression="zstd",
                   use_dictionary=False)
    with pa.ipc.new_stream(str(OUT / "ids/stream.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=11)
    pa.feather.write_feather(table, str(OUT / "ids/file.feather"), chunksize=11)
    datasets.Dataset.from_dict({"input_ids": ids}).save_to_disk(OUT / "ids/saved", num_shards=2)
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(OUT / "text/saved")
    pq.write_table(pa.table({"text": texts}), OUT / "text/a.parquet")


def write_padded(ids):
    longest = max(map(len, ids)) + 3
    rows = {"input_ids": [], "attention_mask": [], "labels": [], "token_type_ids": []}
    for i, row in enumerate(ids):
        left = i % 4
        right = longest - left - len(row)
        rows["input_ids"].append([0] * left + row + [0] * right)
        rows["attention_mask"].append([0] * left + [1] * len(row) + [0] * right)
        rows["labels"].append([-100] * left + row + [-100] * right)
        rows["token_type_ids"].append([0] * longest)
    features = datasets.Features({
        "input_ids": datasets.Sequence(datasets.Value("int32"), length=longest),
        "attention_mask": datasets.Sequence(datasets.Value("int8"), length=longest),
        "labels": datasets.Sequence(datasets.Value("int64"), length=longest),
        "token_type_ids": datasets.Sequence(datasets.Value("int8"), length=longest)})
    saved = datasets.Dataset.from_dict(rows, features=features)
    saved.save_to_disk(OUT / "padded/saved")
    saved.to_parquet(OUT / "padded/a.parquet")
    # Labels alone, as where padding is known by them.
    right = {"input_ids": [row + [0] * (longest - len(row)) for row in ids],
             "labels": [row + [-100] * (longest - len(row)) for row in ids]}
    pq.write_table(pa.table(right), OUT / "padded/labels.parquet")


def write_mds(ids, texts):
    from streaming import MDSWriter
    forms = {"mds_int32": ("ndarray:int32", np.int32, None), "mds_uint16": ("ndarray:uint16", np.uint16, None),
             "mds_dynamic": ("ndarray", np.int64, None), "mds_bytes": ("bytes", np.int64, None),
             "mds_zstd": ("ndarray:uint32", np.uint32, "zstd:3"), "mds_gz": ("ndarray:int64", np.int64, "gz")}
    for name, (encoding, dtype, compression) in forms.items():
        with MDSWriter(out=str(OUT / "ids" / name), columns={"tokens": encoding, "id": "int", "source": "str"},
                       compression=compression, size_limit=1500) as out:
            for i, row in enumerate(ids):
                values = np.array(row, dtype)
                out.write({"tokens": values.tobytes() if encoding == "bytes" else values, "id": i, "source": "x" * (i % 3)})
    blocks = [row for row in ids if len(row) == 8]
    with MDSWriter(out=str(OUT / "blocks"), columns={"input_ids": "ndarray:int32:8"}) as out:
        for row in blocks:
            out.write({"input_ids": np.array(row, np.int32)})
    with MDSWriter(out=str(OUT / "text/mds"), columns={"text": "str", "id": "int"}, size_limit=1000) as out:
        for i, text in enumerate(texts):
            out.write({"text": text, "id": i})


def write_litdata(ids):
    import torch
    from litdata.streaming import TokensLoader
    from litdata.streaming.cache import Cache
    forms = {"litdata_int32": (lambda row: torch.tensor(row, dtype=torch.int32), None),
             "litdata_int64": (lambda row: torch.tensor(row, dtype=torch.int64), None),
             "litdata_uint16": (lambda row: torch.tensor(row, dtype=torch.uint16), None),
             "litdata_numpy": (lambda row: np.array(row, np.uint16), None),
             "litdata_zstd": (lambda row: torch.tensor(row, dtype=torch.int32), "zstd")}
    for name, (as_item, compression) in forms.items():
        folder = OUT / "ids" / name
        folder.mkdir()
        cache = Cache(str(folder), chunk_bytes=1500, compression=compression,
                      compression_level="chunk" if compression else None, item_loader=TokensLoader(block_size=2))
        for i, row in enumerate(ids):
            cache[i] = as_item(row)
        cache.done()
        cache.merge()
        for leftover in folder.glob("*.index.json"):
            leftover.unlink()


def write_text(texts):
    for name, dialect in (("a.csv", csv.excel), ("a.tsv", csv.excel_tab)):
        rows = io.StringIO()
        writer = csv.writer(rows, dialect)
        writer.writerow(["id", "text"])
        writer.writerows(enumerate(texts))
        (OUT / "text" / name).write_bytes(rows.getvalue().encode())
    (OUT / "text/objects.json").write_text(json.dumps([{"id": i, "text": text} for i, text in enumerate(texts)], indent=1))
    (OUT / "text/strings.json").write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    for folder in ("ids", "text", "padded"):
        (OUT / folder).mkdir(parents=True)
    ids, texts = make_documents()
    (OUT / "documents.json").write_text(json.dumps({"ids": ids, "texts": texts}) + "\n")
    write_arrow(ids, texts)
    write_padded(ids)
    write_mds(ids, texts)
    write_litdata(ids)
    write_text(texts)


main()
