import { configDefaults, defineConfig } from "vitest/config";
import { base } from "../../vitest.config.ts";

export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ["test/onnx/**/*.test.ts"],
    exclude: configDefaults.exclude,
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
