import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { transformSource } from "./src/autograph/transform.ts";

const source = fileURLToPath(new URL("./src/", import.meta.url));

export default defineConfig({
  // What `heddle run` does to a user's files.
  plugins: [
    {
      name: "autograph",
      enforce: "pre",
      transform: (code, id) => (/\/test\/autograph\/.*\.ts$/.test(id) ? transformSource(code, id) : undefined),
    },
  ],
  resolve: {
    // Tests import "heddle" and "heddle/nn" as users do; here that is the sources.
    alias: [
      { find: /^heddle$/, replacement: `${source}index.ts` },
      { find: /^heddle\/(.+)$/, replacement: `${source}$1/index.ts` },
    ],
  },
  test: {
    include: ["test/**/*.test.ts", "src/**/*.test.ts"],
    // These need Python packages, which `npm run test:xla` and `test:onnx` install.
    exclude: [...configDefaults.exclude, "test/onnx/**", "test/xla/**"],
    pool: "forks",
    // The default leaves a processor idle.
    maxWorkers: availableParallelism(),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Types that must not compile are asserted in *.test-d.ts by `tsc` itself, with @ts-expect-error.
    typecheck: { enabled: false },
  },
});
