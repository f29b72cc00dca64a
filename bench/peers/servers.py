"""Parameter servers of PyTorch (RPC) and Ray (actors): a client that answers lines of a number and a call's name with the
milliseconds of each of so many calls.

    servers.py torch|ray|loopback <dense numbers> <rows of the table> <width> <rows of a request>
"""

import os
import socket
import sys
import time

import numpy as np

system = sys.argv[1]
dense, count, width, asked = map(int, sys.argv[2:6])
rate = 0.01


def rows_of(seed):
    return np.unique(np.random.default_rng(seed).integers(0, count, asked))


def serve(calls):
    """Answers each line on stdin: a number and the name of a call, which is made so often; the time of each is printed."""
    print("ready", flush=True)
    for line in sys.stdin:
        times, name = line.strip().split(" ", 1)
        prepared = [calls[name]() for _ in range(int(times))]
        before = time.perf_counter()
        for call in prepared:
            call()
        print(1000 * (time.perf_counter() - before) / len(prepared), flush=True)


def with_torch():
    import torch
    import torch.distributed.rpc as rpc
    import torch.multiprocessing as processes

    global held

    class Held:
        """What the server has."""

        def __init__(self):
            self.dense = torch.zeros(dense)
            self.table = torch.zeros(count, width)

    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{free_port()}", num_worker_threads=4)
    server = processes.get_context("fork").Process(target=torch_server, args=(Held, options))
    server.start()
    rpc.init_rpc("client", rank=0, world_size=2, rpc_backend_options=options)
    gradient = torch.ones(dense)
    seeds = iter(range(1_000_000))

    def dense_push():
        return lambda: rpc.rpc_sync("server", torch_dense_push, args=(gradient,))

    def dense_pull():
        return lambda: rpc.rpc_sync("server", torch_dense_pull)

    def rows_push():
        ids = torch.from_numpy(rows_of(next(seeds)))
        values = torch.ones(len(ids), width)
        return lambda: rpc.rpc_sync("server", torch_rows_push, args=(ids, values))

    def rows_pull():
        ids = torch.from_numpy(rows_of(next(seeds)))
        return lambda: rpc.rpc_sync("server", torch_rows_pull, args=(ids,))

    serve({"dense push": dense_push, "dense pull": dense_pull, "rows push": rows_push, "rows pull": rows_pull})
    rpc.shutdown(graceful=False)
    server.kill()


held = None


def torch_server(make, options):
    import torch
    import torch.distributed.rpc as rpc

    global held
    torch.set_num_threads(1)
    held = make()
    rpc.init_rpc("server", rank=1, world_size=2, rpc_backend_options=options)
    rpc.shutdown()


def torch_dense_push(gradient):
    held.dense.add_(gradient, alpha=-rate)


def torch_dense_pull():
    return held.dense


def torch_rows_push(ids, values):
    held.table.index_add_(0, ids, values, alpha=-rate)


def torch_rows_pull(ids):
    return held.table.index_select(0, ids)


def with_ray():
    # A machine that is busy starts it slowly.
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "240")
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)

    @ray.remote
    class Server:
        def __init__(self):
            self.dense = np.zeros(dense, np.float32)
            self.table = np.zeros((count, width), np.float32)

        def dense_push(self, gradient):
            self.dense -= np.float32(rate) * gradient

        def dense_pull(self):
            return self.dense

        def rows_push(self, ids, values):
            self.table[ids] -= np.float32(rate) * values

        def rows_pull(self, ids):
            return self.table[ids]

    server = Server.remote()
    gradient = np.ones(dense, np.float32)
    seeds = iter(range(1_000_000))

    def dense_push():
        return lambda: ray.get(server.dense_push.remote(gradient))

    def dense_pull():
        return lambda: ray.get(server.dense_pull.remote())

    def rows_push():
        ids = rows_of(next(seeds))
        values = np.ones((len(ids), width), np.float32)
        return lambda: ray.get(server.rows_push.remote(ids, values))

    def rows_pull():
        ids = rows_of(next(seeds))
        return lambda: ray.get(server.rows_pull.remote(ids))

    serve({"dense push": dense_push, "dense pull": dense_pull, "rows push": rows_push, "rows pull": rows_pull})
    ray.shutdown()


def loopback():
    """What a loopback socket carries: bytes to another process, and one byte back."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    size = 4 * dense
    if child == 0:
        link = socket.create_connection(listener.getsockname())
        sink(link, size)
        os._exit(0)
    link, _ = listener.accept()
    data = memoryview(bytearray(size))

    def send():
        def once():
            link.sendall(data)
            link.recv(1)

        return once

    serve({"dense push": send})
    link.close()
    os.waitpid(child, 0)


def sink(link, size):
    memory = memoryview(bytearray(size))
    while True:
        done = 0
        while done < size:
            got = link.recv_into(memory[done:])
            if got == 0:
                return
            done += got
        link.sendall(b"1")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


if __name__ == "__main__":
    {"torch": with_torch, "ray": with_ray, "loopback": loopback}[system]()
