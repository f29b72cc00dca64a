// `npm run test:sanitizers`: the native core's tests, its fuzzing of programs among them, under AddressSanitizer: reads and
// writes outside of buffers, use after free, leaks. Linux on x86-64; several minutes, since all of it is compiled anew.
//
//   npm run test:sanitizers                       the core
//   npm run test:sanitizers -- --test malformed   arguments go to cargo test
//   HEDDLE_FUZZ_ROUNDS=200000 npm run test:sanitizers -- --test malformed

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { missingTools, withCargo } from "./setup.mjs";

const native = fileURLToPath(new URL("../native", import.meta.url));
const target = "x86_64-unknown-linux-gnu";

async function main(args) {
  const env = withCargo(process.env);
  const missing = missingTools(env.PATH);
  if (missing !== undefined || process.platform !== "linux" || process.arch !== "x64") {
    console.error(`heddle test:sanitizers: ${missing ?? "sanitizers are tried on Linux on x86-64 only"}`);
    return 2;
  }
  const { status } = await run(
    "cargo",
    ["test", "--release", "--target", target, "-p", "heddle-core", ...args],
    {
      cwd: native,
      env: {
        ...env,
        // The flag is not stable yet; the compiler takes it all the same when told so.
        RUSTC_BOOTSTRAP: "1",
        RUSTFLAGS: "-Zsanitizer=address",
        CARGO_TARGET_DIR: join(native, "target", "sanitized"),
      },
    },
  );
  return status;
}

handleSignals();
main(process.argv.slice(2)).then((status) => process.exit(status));
