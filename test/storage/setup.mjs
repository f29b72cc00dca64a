// Before the suite of object stores: dist is built, and a server with S3's protocol is installed into .heddle/storage.
import { fileURLToPath } from "node:url";
import { pythonEnvironment } from "../../scripts/python.mjs";
import build from "../support/build.mjs";

export default async function prepare() {
  await build();
  try {
    await pythonEnvironment({
      name: "storage",
      requirements: fileURLToPath(new URL("requirements.txt", import.meta.url)),
      say: () => console.log("installing SeaweedFS (150 MB on disk) into .heddle/storage"),
    });
  } catch (error) {
    console.log(`the tests of object stores are left out: ${error.message}`);
  }
}
