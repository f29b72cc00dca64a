"""A Python peer's end of the link to the harness: lines of JSON over a loopback socket, one answer per request."""

import json
import os
import resource
import socket
import sys
import time
import traceback

import numpy as np


def read_spec():
    with open(os.environ["HEDDLE_BENCH_SPEC"], encoding="utf8") as file:
        return json.load(file)


def read_arrays(spec):
    """Parameters by name, inputs that are floats, and those that are integers, such as labels or an embedding's ids."""
    with open(spec["data"], "rb") as file:

        def take(shape, dtype=np.float32):
            return np.fromfile(file, dtype, int(np.prod(shape))).reshape(shape)

        parameters = {name: take(shape) for name, shape in spec["parameters"]}
        inputs = [take(shape) for _, shape in spec["inputs"]]
        return parameters, inputs, [take(shape, np.int32).astype(np.int64) for _, shape in spec["integers"]]


def digest(values):
    """A number that stands for a function's result: the mean of its squares, each times its position modulo 7, plus 1."""
    flat = np.asarray(values).astype(np.float64).ravel()
    return float((flat**2 * (1 + np.arange(len(flat)) % 7)).mean())


def peak_memory():
    """The largest memory of this process so far, in bytes."""
    try:
        with open("/proc/self/status", encoding="utf8") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def timed(count, launch, depth=1):
    """Runs `count` launches, `depth` of them queued; the time of each is measured from the end of the previous one."""
    milliseconds, values, waiting = [], [], []
    before = time.perf_counter()

    def settle():
        nonlocal before
        values.append(waiting.pop(0)())
        now = time.perf_counter()
        milliseconds.append(1000 * (now - before))
        before = now

    for _ in range(count):
        if len(waiting) >= depth:
            settle()
        waiting.append(launch())
    while waiting:
        settle()
    return {"milliseconds": milliseconds, "losses": [values[0], values[-1]]}


class Outputs:
    """A network that is not trained: its `run()` gives an array."""

    def __init__(self, spec):
        self.quantised = spec["sizes"]["kind"] == "int8"

    def check(self):
        y = self.run()
        return [digest(y)] if self.quantised else y.ravel().tolist()

    def steps(self, count):
        def launch():
            y = self.run()
            return lambda: float(y.flat[0])

        return timed(count, launch)


def serve(spec, peer):
    """Answers the harness until its request to end. `peer` has `versions`, `check()` and `steps(count)`."""
    link = socket.create_connection(("127.0.0.1", spec["port"]))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = link.makefile("rw", encoding="utf8")

    def send(message):
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    send({"token": spec["token"], "rank": int(os.environ.get("RANK", 0)), "versions": peer.versions})
    for line in lines:
        request = json.loads(line)
        if request["run"] == "end":
            break
        try:
            send({"losses": peer.check()} if request["run"] == "check" else peer.steps(request["count"]))
        except Exception:  # whatever it is, the harness shows it
            send({"error": traceback.format_exc()})
    send({"peakBytes": peak_memory()})
    link.shutdown(socket.SHUT_WR)
    link.recv(1)
