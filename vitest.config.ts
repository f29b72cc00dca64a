import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import manifest from "./package.json" with { type: "json" };
import { transformSource } from "./src/adapters/autograph/transform.ts";
import { compiledSources, sourceOfFrame } from "./test/support/compiled-sources.ts";

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Suites that do little but start processes and wait for them, and long ones that repeat what others test in other ways. */
const processes = [
  "test/matrix/distributed/process.test.ts",
  "test/cache/process.test.ts",
  "test/checkpoints/kill.test.ts",
  "test/checkpoints/process.test.ts",
  "test/comm/changed-bits.test.ts",
  "test/elastic/iterations.test.ts",
  "test/frames/process.test.ts",
  "test/keras/process.test.ts",
  "test/parameter-server/kills.test.ts",
  "test/parameter-server/memory.test.ts",
  "test/parameter-server/process.test.ts",
  "test/plan/processes.test.ts",
  "test/quorum/etcd.test.ts",
  "test/native/remat.test.ts",
  "test/repo/commands.test.ts",
  "test/repo/package.test.ts",
  "test/executors/remote.test.ts",
  "test/testing/runner.test.ts",
  "test/checkpoints/file-kill.test.ts",
  "test/train/drift.test.ts",
  "test/train/endings.test.ts",
  "test/train/memory.test.ts",
  "test/train/local.test.ts",
  "test/launch/local.test.ts",
  "test/launch/absent.test.ts",
  "test/launch/preempted.test.ts",
  "test/launch/short-memory.test.ts",
  "test/launch/strangers.test.ts",
  "test/launch/meshes.test.ts",
  "test/launch/stalls.test.ts",
  "test/cli/plan.test.ts",
  "test/engines/kubernetes.test.ts",
  "test/engines/ray.test.ts",
  "test/e2e/browser.test.ts",
  "test/e2e/failures.test.ts",
  "test/e2e/profile.test.ts",
];

/** Short suites that change or measure what a process has one of: the registry of ops, environment, memory, processes. */
const alone = [
  "test/cli/export.test.ts",
  "test/cli/main.test.ts",
  "test/e2e/threads.test.ts",
  "test/ir/text.test.ts",
  "test/native/allocation.test.ts",
  "test/native/threads.test.ts",
  "test/native/unawaited.test.ts",
  "test/pipeline/native.test.ts",
  "test/pipeline/pipeline.test.ts",
  "test/pipeline/stages.test.ts",
  "test/rewrite/rewrite.test.ts",
  "test/executors/memory.test.ts",
  "test/runtime/registry.test.ts",
  "test/tensor/churn.test.ts",
  "test/train/native.test.ts",
];

/** Needs network namespaces, which only root may make: `npm run test:hosts`. */
const hosts = ["test/hosts/hosts.test.ts", "test/hosts/schedules.test.ts"];

/** Needs network namespaces, too, and the engines that it finds: `npm run test:engines`. */
const engines = ["engines", "slurm", "mpi-transport", "ssh"].map((name) => `test/engines/${name}.test.ts`);

/** Needs an object store, which its setup installs: `npm run test:storage`. */
const storage = ["test/storage/s3.test.ts"];

/** Kills at random instants, hundreds of them, and a million requests: `npm run test:kills`; `test:processes` has fewer. */
const kills = [
  "test/checkpoints/kill.test.ts",
  "test/e2e/failures.test.ts",
  "test/elastic/kills.test.ts",
  "test/parameter-server/kills.test.ts",
  "test/parameter-server/memory.test.ts",
];

/** Long suites, of which `npm test` has a part in suites of their own: `npm run test:grids`. */
const products = [
  "test/native/donation-all.test.ts",
  "test/native/instruction-sets.test.ts",
  "test/native/long-sum-grid.test.ts",
  "test/native/memory.test.ts",
  "test/train/large.test.ts",
];

/** Long tables of which `npm test` runs a part (`partOf`): `npm run test:grids` runs them whole, too. */
const sampled = [
  "test/checkpoints/power.test.ts",
  "test/cli/bench.test.ts",
  "test/compression/restart.test.ts",
  "test/compression/train.test.ts",
  "test/fuzz/fuzz.test.ts",
  "test/native/ops.test.ts",
  "test/native/transforms.test.ts",
  "test/ops/batch.test.ts",
  "test/ops/table.test.ts",
  "test/ops/torch.test.ts",
  "test/parameter-server/optimizers.test.ts",
  "test/parameter-server/table-training.test.ts",
  "test/pipeline/native.test.ts",
  "test/pipeline/pipeline.test.ts",
  "test/pipeline/stash.test.ts",
  "test/rewrite/ends.test.ts",
  "test/tensor/norms.test.ts",
  "test/tensor/told.test.ts",
  "test/train/guard.test.ts",
  "test/train/layouts.test.ts",
  "test/train/parts.test.ts",
  "test/train/sharded-memory.test.ts",
  "test/train/snapshot.test.ts",
  "test/train/train.test.ts",
  "test/train/updates.test.ts",
];

/** Long tables of which `test:processes` runs a part (`partOf`): `npm run test:grids` runs them whole. */
const parts = [
  "test/bench/harness.test.ts",
  "test/cli/mistakes.test.ts",
  "test/comm/collectives.test.ts",
  "test/comm/transports.test.ts",
  "test/compression/process.test.ts",
  "test/e2e/examples.test.ts",
  "test/elastic/process.test.ts",
  "test/in-network/run.test.ts",
  "test/launch/ahead-process.test.ts",
  "test/nn/layer-transforms.test.ts",
  "test/nn/sixteen-bits.test.ts",
  "test/ops/dtypes.test.ts",
  "test/repo/bundle.test.ts",
  "test/repo/docs.test.ts",
  "test/repo/misuse.test.ts",
  "test/rewrite/ends-product.test.ts",
  "test/tensor/compose.test.ts",
  "test/train/pipeline.process.test.ts",
  "test/train/pipeline.test.ts",
  "test/train/process.test.ts",
  "test/train/transport.test.ts",
];

const globalSetup = "test/support/build.mjs";
// These need Python packages, which `npm run test:xla` and `test:onnx` install.
const elsewhere = ["test/onnx/**", "test/xla/**"];

/** What all suites are run with. */
export const base = defineConfig({
  // What `heddle run` does to a user's files.
  plugins: [
    {
      name: "autograph",
      enforce: "pre",
      transform: (code, id) => (/\/test\/autograph\/.*\.ts$/.test(id) ? transformSource(code, id) : undefined),
    },
    compiledSources(pathOf(".")),
  ],
  resolve: {
    // Tests import "heddle" and "heddle/nn" as users do; here that is the sources.
    alias: Object.entries(manifest.exports).flatMap(([path, to]) =>
      typeof to === "string"
        ? []
        : [{ find: new RegExp(`^heddle${path.slice(1)}$`), replacement: pathOf(to["heddle-source"]) }],
    ),
  },
  test: {
    pool: "forks",
    // The default leaves a processor idle.
    maxWorkers: availableParallelism(),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    setupFiles: pathOf("test/support/processor-time.ts"),
    // Node loads what is compiled: the sources, and the build.
    server: { deps: { external: [/\/\.heddle\/compiled\//, /\/dist\/.*\.js$/] } },
    onStackTrace: sourceOfFrame,
    // Tests as Vite transforms them, by their content and that of this file with its imports: seconds of each run.
    experimental: { fsModuleCache: true, fsModuleCachePath: pathOf(".heddle/vitest") },
    // Types that must not compile are asserted in *.test-d.ts by `tsc` itself, with @ts-expect-error.
    typecheck: { enabled: false },
  },
});

type Options = NonNullable<typeof base.test>;
const project = (name: string, options: Options) => ({ ...base, test: { ...base.test, name, ...options } });

export default defineConfig({
  test: {
    reporters: ["default", "./test/support/slowest.mjs"],
    projects: [
      // Most of the time of a small suite is that of loading the sources: files share a process that has them.
      project("shared", {
        isolate: false,
        include: ["test/**/*.test.ts", "src/**/*.test.ts"],
        exclude: [
          ...configDefaults.exclude,
          ...elsewhere,
          ...alone,
          ...processes,
          ...kills,
          ...products,
          ...parts,
          ...hosts,
          ...engines,
          ...storage,
        ],
      }),
      // Groups of their own, since a shared process ends where one alone comes between.
      project("alone", { globalSetup, include: alone, sequence: { groupOrder: 1 } }),
      project("processes", {
        globalSetup,
        include: [...processes, ...parts],
        provide: { step: 10 },
        sequence: { groupOrder: 2 },
      }),
      project("hosts", { globalSetup, include: hosts, testTimeout: 180_000, sequence: { groupOrder: 3 } }),
      project("engines", {
        globalSetup: "test/engines/setup.mjs",
        include: engines,
        testTimeout: 180_000,
        sequence: { groupOrder: 4 },
      }),
      project("grids", {
        globalSetup,
        include: [...products, ...sampled, ...parts],
        provide: { step: 1 },
        sequence: { groupOrder: 5 },
      }),
      project("storage", {
        globalSetup: "test/storage/setup.mjs",
        include: storage,
        testTimeout: 180_000,
        sequence: { groupOrder: 7 },
      }),
      project("kills", { include: kills, provide: { step: 1 }, sequence: { groupOrder: 6 } }),
    ],
  },
});
