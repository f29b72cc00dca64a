"""Runs StableHLO text through XLA on the CPU, for oracle.ts.

A message either way is a length (u32, little endian) and JSON of that many bytes, then the arrays that the JSON describes,
raw and row-major, one after the other. A request holds the text and the inputs of each replica; an answer holds the outputs
of each replica, or an error.
"""

import json
import struct
import sys

import jax
import ml_dtypes
import numpy as np
from jaxlib import lapack, xla_client

jax.config.update("jax_enable_x64", True)
# LAPACK is looked up in SciPy now: a custom call that had to do it would wait for this thread for ever.
lapack.prepare_lapack_call("geqrf", np.float32)

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}
NAMES = {np.dtype(kind): name for name, kind in DTYPES.items()}


def read_array(stream, spec):
    dtype = np.dtype(DTYPES[spec["dtype"]])
    count = int(np.prod(spec["shape"], dtype=np.int64))
    return np.frombuffer(stream.read(count * dtype.itemsize), dtype).reshape(spec["shape"])


def whole(shards, devices):
    """One argument of all replicas: XLA takes each device's own copy, and they may differ."""
    mesh = jax.sharding.Mesh(np.array(devices), ("replica",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.make_array_from_single_device_arrays(shards[0].shape, sharding, shards)


def run(text, replicas):
    devices = jax.local_devices()[: len(replicas)]
    options = xla_client.CompileOptions()
    options.num_replicas = len(devices)
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id] for device in devices]))
    executable = devices[0].client.compile_and_load(text, xla_client.DeviceList(tuple(devices)), options)
    arguments = [
        whole([jax.device_put(array, device) for array, device in zip(arrays, devices)], devices)
        for arrays in zip(*replicas)
    ]
    outputs = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [[np.asarray(output[index]) for output in outputs] for index in range(len(devices))]


def answer(stream, header, arrays):
    text = json.dumps(header).encode()
    stream.write(struct.pack("<I", len(text)) + text)
    for array in arrays:
        stream.write(np.ascontiguousarray(array).tobytes())
    stream.flush()


def main():
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while length := source.read(4):
        request = json.loads(source.read(struct.unpack("<I", length)[0]))
        replicas = [[read_array(source, spec) for spec in inputs] for inputs in request["replicas"]]
        try:
            results = run(request["text"], replicas)
        except Exception as error:  # XLA refuses a text: the test says so, the next one goes on
            answer(target, {"error": str(error)[:2000]}, [])
            continue
        described = [[{"dtype": NAMES[a.dtype], "shape": a.shape} for a in outputs] for outputs in results]
        answer(target, {"replicas": described}, [array for outputs in results for array in outputs])


main()
