// `npm run test:sanitizers`: the native core's tests, with its fuzzing of programs, under AddressSanitizer. It needs Linux on
// x86-64, and compiles everything again, in native/target/sanitized.
//
//   npm run test:sanitizers                           the core
//   npm run test:sanitizers -- --test all malformed   arguments go to cargo test
//   HEDDLE_FUZZ_ROUNDS=200000 npm run test:sanitizers -- --test all malformed

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { missingTools, withCargo } from "./setup.mjs";

const native = fileURLToPath(new URL("../native", import.meta.url));
const target = "x86_64-unknown-linux-gnu";

const covers = `AddressSanitizer: reads and writes outside of buffers, arenas and what kernels keep, use after free, leaks; in all
code of the core and its crates, on every instruction set of this processor. Buffers are allocations of their own there.
Not seen: accesses of kernels generated at run time and of assembler, whose results the tests compare with compiled ones.`;

async function main(args) {
  const env = withCargo(process.env);
  const missing = missingTools(env.PATH);
  if (missing !== undefined || process.platform !== "linux" || process.arch !== "x64") {
    console.error(`heddle test:sanitizers: ${missing ?? "sanitizers are tried on Linux on x86-64 only"}`);
    return 2;
  }
  console.log(covers);
  const began = Date.now();
  const { status } = await run("cargo", ["test", "--release", "--target", target, "-p", "heddle-core", ...args], {
    cwd: native,
    env: {
      ...env,
      // The flag is not stable yet; this variable makes the stable compiler accept it.
      RUSTC_BOOTSTRAP: "1",
      RUSTFLAGS: "-Zsanitizer=address --cfg heddle_exact",
      // Compiles in half the time; bodies that must be inlined are at every level.
      CARGO_PROFILE_RELEASE_OPT_LEVEL: "1",
      CARGO_TARGET_DIR: join(native, "target", "sanitized"),
    },
  });
  const minutes = ((Date.now() - began) / 60_000).toFixed(1);
  console.log(`heddle test:sanitizers: ${status === 0 ? "nothing found" : "FAILED"}, ${minutes} minutes`);
  return status;
}

handleSignals();
main(process.argv.slice(2)).then((status) => process.exit(status));
