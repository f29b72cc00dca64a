// Loaded into `heddle run` by the benchmark of its start: reports the end of the first training step. A worker reports
// each step at its launch, and queues two at most: it launches the third as soon as the first is done.

const send = process.send?.bind(process);
if (send !== undefined) {
  process.send = (message, ...rest) => {
    if (message?.type === "progress" && message.step === 2) process.stdout.write("first step done\n");
    return send(message, ...rest);
  };
}
