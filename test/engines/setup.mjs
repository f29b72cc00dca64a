// Before the suites of engines: dist is built, and an MPI with the standard ABI is installed into .heddle/mpi.
import { fileURLToPath } from "node:url";
import { pythonEnvironment } from "../../scripts/python.mjs";
import build from "../support/build.mjs";

export default async function prepare() {
  await build();
  try {
    await pythonEnvironment({
      name: "mpi",
      requirements: fileURLToPath(new URL("mpi-requirements.txt", import.meta.url)),
      say: () => console.log("installing MPICH 5 (40 MB on disk) into .heddle/mpi"),
    });
  } catch (error) {
    console.log(`the tests of MPI as a transport are left out: ${error.message}`);
  }
}
