import { configDefaults, defineConfig } from "vitest/config";
import { base } from "../../vitest.config.ts";

export default defineConfig({
  ...base,
  test: {
    ...base.test,
    provide: { every: Number(process.env.XLA_EVERY ?? 1) },
    include: ["test/xla/**/*.test.ts"],
    exclude: configDefaults.exclude,
  },
});
