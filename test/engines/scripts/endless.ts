/** Sums without end; after a while rank 1 is killed in between. */
import { comm, tensor } from "heddle";

await comm.connect();
const start = performance.now();
while (true) {
  await comm.allReduce(tensor([1, 2, 3])).data();
  if (comm.rank() === 1 && performance.now() - start > 500) process.kill(process.pid, "SIGKILL");
}
