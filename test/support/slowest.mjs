// A reporter of vitest: where the time of a run goes, file by file.

import { relative } from "node:path";

const shown = 10;
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`.padStart(8);

/** What a file takes of a worker: loading it, with what it imports, its hooks and its tests. */
function timeOf(module) {
  const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } = module.diagnostic();
  return environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration;
}

export default class Slowest {
  onTestRunEnd(modules) {
    const files = modules.map((module) => ({ name: relative(process.cwd(), module.moduleId), time: timeOf(module) }));
    files.sort((a, b) => b.time - a.time);
    if (files.length <= shown) return;
    const sum = files.reduce((total, { time }) => total + time, 0);
    console.log(`\n The slowest of ${files.length} files, which took ${seconds(sum).trim()} of all workers together:`);
    for (const { name, time } of files.slice(0, shown)) console.log(`${seconds(time)}  ${name}`);
  }
}
