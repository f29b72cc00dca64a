// Builds dist anew where the sources have changed, for suites that start processes.
import { setup } from "../../scripts/setup.mjs";

export default async function build() {
  await setup({ only: ["build"] });
}
