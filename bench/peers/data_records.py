"""Files of records to batches of 128 by polars or pyarrow with PyTorch's DataLoader, and by tf.data. Answers `time FORMAT` with the number of
records and the seconds of a pass, and `sum FORMAT` with the number and the sum of all values.

    data_records.py make <folder> <sizes as JSON>
    data_records.py DataLoader|"whole batches"|tf.data <folder>
"""

import json
import os
import sys
import time
from pathlib import Path

peer, folder = sys.argv[1], Path(sys.argv[2])
size = 128
numbers = ["a", "b", "c", "d", "e", "f"]
names = [*numbers, "count", "y"]


def make(sizes):
    """Six columns of floats, two of whole numbers; and pictures of four kinds."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet
    from PIL import Image

    rng = np.random.default_rng(1)

    def table(rows):
        floats = {name: np.round(rng.normal(size=rows), 4).astype(np.float32) for name in numbers}
        return pa.table({**floats, "count": rng.integers(0, 10_000, rows, np.int32), "y": rng.integers(0, 10, rows, np.int32)})

    # As 0.1234, not as the double next to the float.
    rows = table(sizes["csv"])
    texts = {name: pa.array([f"{value:.4f}" for value in rows[name].to_pylist()]) for name in numbers}
    pyarrow.csv.write_csv(
        pa.table({**texts, "count": rows["count"], "y": rows["y"]}), folder / "rows.csv",
        pyarrow.csv.WriteOptions(quoting_style="none"))
    pyarrow.parquet.write_table(table(sizes["parquet"]), folder / "rows.parquet", row_group_size=131_072)
    height, width = 240, 320
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    for index in range(sizes["images"]):
        kind = folder / "images" / "abcd"[index % 4]
        kind.mkdir(parents=True, exist_ok=True)
        waves = np.stack([np.sin(across / (5 + index % 17 + c) + down / (9 + index % 5)) for c in range(3)], -1)
        noise = rng.normal(size=(height, width, 3)) * 12
        pixels = np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(kind / f"{index:05}.jpg", quality=90)


def serve(batches):
    """Answers lines. `batches[format](adds)` gives for each batch the number of records, and the sum of its values if it is asked to add."""
    print("ready", flush=True)
    for line in sys.stdin:
        what, name = line.split()
        before = time.perf_counter()
        count, total = 0, 0.0
        for rows, added in batches[name](what == "sum"):
            count += rows
            total += added
        print(count, total if what == "sum" else time.perf_counter() - before, flush=True)


def image_files():
    return [(path, kind) for kind, name in enumerate(sorted(os.listdir(folder / "images")))
            for path in sorted((folder / "images" / name).iterdir())]


def with_torch(whole):
    import numpy as np
    import polars
    import pyarrow.parquet
    import torch
    from PIL import Image, ImageOps
    from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

    types = {**{name: polars.Float32 for name in numbers}, "count": polars.Int32, "y": polars.Int32}

    class Slices(IterableDataset):
        """Batches that are cut from arrays: what is left of one array begins the next batch."""

        def __init__(self, parts):
            self.parts = parts

        def __iter__(self):
            rest = None
            for part in self.parts:
                if rest is not None:
                    part = [torch.cat(both) for both in zip(rest, part)]
                full = len(part[0]) // size * size
                for start in range(0, full, size):
                    yield [column[start:start + size] for column in part]
                rest = [column[full:] for column in part]
            if rest is not None and len(rest[0]) > 0:
                yield rest

    class Pictures(Dataset):
        def __init__(self):
            self.files = image_files()

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            path, kind = self.files[index]
            with Image.open(path) as image:
                # Lets libjpeg decode fewer pixels, as libvips does.
                image.draft("RGB", (128, 128))
                fitted = ImageOps.fit(image.convert("RGB"), (128, 128), Image.Resampling.LANCZOS)
            return torch.from_numpy(np.asarray(fitted).transpose(2, 0, 1).copy()), kind

    def tensors(columns):
        return [torch.from_numpy(np.array(column)) for column in columns]

    def csv_parts():
        frame = polars.read_csv(folder / "rows.csv", schema_overrides=types)
        yield tensors(frame[name].to_numpy() for name in names)

    def parquet_parts():
        file = pyarrow.parquet.ParquetFile(folder / "rows.parquet")
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            yield tensors(table[name].to_numpy() for name in names)

    def loader(parts):
        if whole:
            return DataLoader(Slices(parts), batch_size=None)
        return DataLoader(TensorDataset(*[torch.cat(column) for column in zip(*parts)]), batch_size=size)

    def of(make):
        def batches(adds):
            for batch in make():
                yield len(batch[-1]), sum(float(column.double().sum()) for column in batch) if adds else 0.0
        return batches

    # Threads of the loader are processes, which stay for all passes.
    pictures = DataLoader(Pictures(), batch_size=size, num_workers=2, persistent_workers=True)
    serve({
        "csv": of(lambda: loader(csv_parts())),
        "parquet": of(lambda: loader(parquet_parts())),
        "images": of(lambda: pictures),
    })


def with_tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import pyarrow.parquet
    import tensorflow as tf

    auto = tf.data.AUTOTUNE

    def csv():
        return tf.data.experimental.make_csv_dataset(
            str(folder / "rows.csv"), size, column_defaults=[tf.float32] * 6 + [tf.int32] * 2, num_epochs=1, shuffle=False)

    def parquet():
        """TensorFlow reads no Parquet itself."""
        table = pyarrow.parquet.read_table(folder / "rows.parquet")
        return tf.data.Dataset.from_tensor_slices({name: table[name].to_numpy() for name in names}).batch(size).prefetch(auto)

    files = image_files()
    paths, kinds = [str(path) for path, _ in files], [kind for _, kind in files]

    def decoded(path, kind):
        # The middle of the picture, brought to the size.
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        height, width = tf.shape(image)[0], tf.shape(image)[1]
        side = tf.minimum(height, width)
        image = tf.image.crop_to_bounding_box(image, (height - side) // 2, (width - side) // 2, side, side)
        image = tf.cast(tf.image.resize(image, [128, 128], antialias=True), tf.uint8)
        return {"x": tf.transpose(image, [2, 0, 1]), "y": kind}

    pictures = tf.data.Dataset.from_tensor_slices((paths, kinds)).map(decoded, auto).batch(size).prefetch(auto)

    def of(make):
        def batches(adds):
            for batch in make():
                yield int(batch["y"].shape[0]), (
                    sum(float(tf.reduce_sum(tf.cast(column, tf.float64))) for column in batch.values()) if adds else 0.0)
        return batches

    serve({"csv": of(csv), "parquet": of(parquet), "images": of(lambda: pictures)})


if peer == "make":
    make(json.loads(sys.argv[3]))
    print("ready", flush=True)
elif peer == "tf.data":
    with_tensorflow()
else:
    with_torch(peer == "whole batches")
