import { configDefaults, defineConfig } from "vitest/config";
import { base } from "../../vitest.config.ts";

export default defineConfig({
  ...base,
  test: { ...base.test, include: ["test/xla/**/*.test.ts"], exclude: configDefaults.exclude },
});
