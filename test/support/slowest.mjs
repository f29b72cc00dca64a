// A reporter of vitest: where the time of a run goes, file by file. Processor time counts, since a busy machine does not lengthen it.

import { mkdirSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";

const shown = 10;
const folder = fileURLToPath(new URL("../../.heddle/", import.meta.url));
const seconds = (time) => `${time.toFixed(1)} s`.padStart(8);

/** What a file takes of a worker: loading it, with what it imports, its hooks and its tests. */
function timeOf(module) {
  const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } = module.diagnostic();
  return (environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration) / 1000;
}

const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

export default class Slowest {
  onTestRunEnd(modules) {
    const files = modules.map((module) => ({
      name: relative(process.cwd(), module.moduleId),
      time: timeOf(module),
      processor: module.meta().processorTime ?? 0,
    }));
    files.sort((a, b) => b.processor - a.processor);
    if (files.length <= shown) return;
    const lines = files.map(({ name, time, processor }) => `${seconds(processor)} ${seconds(time)}  ${name}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}slowest.txt`, `${lines.join("\n")}\n`);
    const processors = seconds(sumOf(files.map(({ processor }) => processor))).trim();
    const workers = seconds(sumOf(files.map(({ time }) => time))).trim();
    console.log(
      `\n ${files.length} files took ${processors} of the processors, and ${workers} of all workers together.`,
    );
    console.log(" The slowest, by the processors and by the clock; all are in .heddle/slowest.txt:");
    for (const line of lines.slice(0, shown)) console.log(line);
  }
}
