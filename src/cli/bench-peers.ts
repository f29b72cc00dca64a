/** @module The peers of `heddle bench collectives`: Gloo through PyTorch, and every MPI whose compiler and launcher are there. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ownVariables } from "../util/settings.ts";

/** A peer that can be started. */
export interface Peer {
  readonly name: string;
  /** Runs the measurements in `workers` processes; gives what rank 0 prints. @throws Error */
  run(workers: number, measurements: readonly string[]): Promise<string>;
}

/** A peer that cannot be started, and why. */
export interface Missing {
  readonly name: string;
  readonly missing: string;
}

/** Arguments are those of the workers of Heddle: seconds, then `allReduce:1024`. */
const glooSource = `
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, size = dist.get_rank(), dist.get_world_size()
seconds = float(sys.argv[1])

def prepare(name, count):
    part = max(1, round(count / size))
    x, own = torch.zeros(count), torch.zeros(part)
    whole = torch.zeros(part * size)
    parts = list(torch.zeros(part * size).chunk(size))
    root = parts if rank == 0 else None
    return {
        "allReduce": lambda: dist.all_reduce(x),
        "reduce": lambda: dist.reduce(x, 0),
        "broadcast": lambda: dist.broadcast(x, 0),
        "reduceScatter": lambda: dist.reduce_scatter_tensor(own, whole),
        "allGather": lambda: dist.all_gather_into_tensor(whole, own),
        "gather": lambda: dist.gather(own, root),
        "scatter": lambda: dist.scatter(own, root),
        "allToAll": lambda: dist.all_to_all_single(torch.empty_like(whole), whole),
    }[name]

def elapsed(run, times):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times

for measurement in sys.argv[2:]:
    name, size_text = measurement.split(":")
    run = prepare(name, max(1, round(int(size_text) / 4)))
    run(); run()
    times = torch.tensor(min(5000, max(2, round(seconds / elapsed(run, 2)))))
    dist.broadcast(times, 0)
    result = torch.tensor(elapsed(run, int(times)), dtype=torch.float64)
    dist.all_reduce(result, dist.ReduceOp.MAX)
    if rank == 0:
        print("call", name, size_text, result.item(), flush=True)
dist.destroy_process_group()
`;

const mpiSource = `
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int size, rank, count, part;
static float *in, *out;

static void once(const char *name) {
  MPI_Comm all = MPI_COMM_WORLD;
  if (!strcmp(name, "allReduce")) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, all);
  else if (!strcmp(name, "reduce")) MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, all);
  else if (!strcmp(name, "broadcast")) MPI_Bcast(in, count, MPI_FLOAT, 0, all);
  else if (!strcmp(name, "reduceScatter")) MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, all);
  else if (!strcmp(name, "allGather")) MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, all);
  else if (!strcmp(name, "gather")) MPI_Gather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, 0, all);
  else if (!strcmp(name, "scatter")) MPI_Scatter(in, part, MPI_FLOAT, out, part, MPI_FLOAT, 0, all);
  else if (!strcmp(name, "allToAll")) MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, all);
  else { fprintf(stderr, "no collective %s\\n", name); MPI_Abort(all, 1); }
}

static double elapsed(const char *name, int times) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < times; i++) once(name);
  return (MPI_Wtime() - start) / times;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double seconds = atof(argv[1]);
  for (int i = 2; i < argc; i++) {
    char name[32];
    long bytes;
    if (sscanf(argv[i], "%31[^:]:%ld", name, &bytes) != 2) MPI_Abort(MPI_COMM_WORLD, 1);
    count = fmax(1, round(bytes / 4.0));
    part = fmax(1, round((double)count / size));
    size_t room = 4 * (size_t)(count > part * size ? count : part * size);
    in = malloc(room);
    out = malloc(room);
    memset(in, 0, room);
    memset(out, 0, room);
    once(name);
    once(name);
    int times = fmin(100000, fmax(2, round(seconds / elapsed(name, 2))));
    MPI_Bcast(&times, 1, MPI_INT, 0, MPI_COMM_WORLD);
    double own = elapsed(name, times), slowest;
    MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) { printf("call %s %ld %.9g\\n", name, bytes, slowest); fflush(stdout); }
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
`;

/** A folder for the sources of peers, and what removes it. */
export function peerFolder(): { readonly folder: string; readonly remove: () => void } {
  // The listeners come first: a signal may come as soon as the folder is there.
  const signals = ["SIGINT", "SIGTERM"] as const;
  const onSignal = (signal: NodeJS.Signals): void => {
    clean();
    // Without this listener the signal ends the process, as its sender expects.
    process.kill(process.pid, signal);
  };
  for (const signal of signals) process.once(signal, onSignal);
  const folder = mkdtempSync(join(tmpdir(), "heddle-bench-"));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  const remove = (): void => {
    for (const signal of signals) process.off(signal, onSignal);
    clean();
  };
  return { folder, remove };
}

const lastLine = (text: string): string => text.trim().split("\n").at(-1) ?? "";

/** Gloo through the PyTorch of a Python. */
export function glooPeer(folder: string, python: string, seconds: number): Peer | Missing {
  const { status, stderr, error } = spawnSync(python, ["-c", "import torch.distributed"], { encoding: "utf8" });
  if (status !== 0)
    return {
      name: "gloo tcp",
      missing: `${python} has no PyTorch (${error?.message ?? lastLine(stderr)}); --python names another`,
    };
  const file = join(folder, "gloo.py");
  writeFileSync(file, glooSource);
  return {
    name: "gloo tcp",
    run: async (workers, measurements) => {
      const port = await freePort();
      const ranks = Array.from({ length: workers }, (_unused, rank) =>
        spawn(python, [file, String(seconds), ...measurements], {
          stdio: ["ignore", "pipe", "pipe"],
          env: {
            ...ownVariables(),
            RANK: String(rank),
            WORLD_SIZE: String(workers),
            MASTER_ADDR: "127.0.0.1",
            MASTER_PORT: String(port),
            OMP_NUM_THREADS: "1",
            ...(process.platform === "linux" ? { GLOO_SOCKET_IFNAME: "lo" } : {}),
          },
        }),
      );
      return (await Promise.all(ranks.map((rank) => outputOf("gloo", rank))))[0] as string;
    },
  };
}

/** Each MPI of this machine, with shared memory, and Open MPI with TCP, too. */
export function mpiPeers(folder: string, seconds: number): (Peer | Missing)[] {
  const source = join(folder, "mpi.c");
  writeFileSync(source, mpiSource);
  const found = [".openmpi", ".mpich", ""].flatMap((suffix): Peer[] => {
    const program = join(folder, `mpi${suffix}`);
    const { status } = spawnSync(`mpicc${suffix}`, ["-O2", "-o", program, source, "-lm"], { encoding: "utf8" });
    if (status !== 0) return [];
    const launcher = `mpiexec${suffix}`;
    const { stdout = "" } = spawnSync(launcher, ["--version"], { encoding: "utf8" });
    const isOpen = /open ?mpi|openrte/i.test(stdout);
    const [name, version] = [isOpen ? "open mpi" : "mpich", /\d+\.\d+[.\w]*/.exec(stdout)?.[0] ?? ""];
    const peer = (transport: string, variables: NodeJS.ProcessEnv): Peer => ({
      name: `${name} ${version} ${transport}`,
      run: (workers, measurements) =>
        outputOf(
          launcher,
          spawn(launcher, ["-n", String(workers), program, String(seconds), ...measurements], {
            stdio: ["ignore", "pipe", "pipe"],
            env: { ...ownVariables(), ...openMpi, ...variables },
          }),
        ),
    });
    const shared = peer("shared", isOpen ? { OMPI_MCA_btl: "self,vader" } : {});
    return isOpen ? [shared, peer("tcp", { OMPI_MCA_pml: "ob1", OMPI_MCA_btl: "self,tcp" })] : [shared];
  });
  // Without a suffix stands one that has been found already.
  const named = found.filter(({ name }, index) => found.findIndex((other) => other.name === name) === index);
  return named.length > 0
    ? named
    : [{ name: "mpi", missing: "there is no mpicc that compiles, with an mpiexec beside it" }];
}

/** Open MPI refuses root, and more ranks than cores, unless told so. */
const openMpi = {
  OMPI_ALLOW_RUN_AS_ROOT: "1",
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
  OMPI_MCA_rmaps_base_oversubscribe: "1",
};

/** What a process prints. @throws Error with its last words, unless it ends well */
export function outputOf(name: string, child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let [stdout, stderr] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.once("error", reject);
    child.once("close", (status) => {
      if (status === 0) resolve(stdout);
      else reject(new Error(`${name} ended with status ${status}: ${lastLine(stderr)}`));
    });
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
