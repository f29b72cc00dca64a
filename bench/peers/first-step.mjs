// Loaded into `heddle run` by the benchmark of its start: tells when the first training step is done. A worker reports
// each step when it is launched, and has two under way at most: the third is launched as soon as the first is done.

const send = process.send?.bind(process);
if (send !== undefined) {
  process.send = (message, ...rest) => {
    if (message?.type === "progress" && message.step === 2) process.stdout.write("first step done\n");
    return send(message, ...rest);
  };
}
