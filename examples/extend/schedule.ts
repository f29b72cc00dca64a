/**
 * Your own schedule of a collective: a table of messages. Values go along a line of ranks to the last one, and the sum comes back. It is
 * checked, printed, simulated on two topologies beside Heddle's own, and run.
 *
 *     npx heddle run examples/extend/schedule.ts --workers 4     # a line of rounds, the fastest schedules, a sum of [10,4]; 2 s
 */
import { comm, tensor } from "heddle";
import {
  type Message,
  rankedSchedules,
  registerSchedule,
  scheduleNamed,
  type Topology,
  uniform,
} from "heddle/schedules";

registerSchedule({
  name: "line",
  doc: "Along the line of ranks and back: no message needs a link between ranks that are not neighbours.",
  make: ({ collective, ranks }) => {
    if (collective !== "allReduce") return undefined;
    const messages: Message[] = [];
    for (let rank = 0; rank + 1 < ranks; rank++) {
      messages.push({ round: rank, from: rank, to: rank + 1, chunk: 0, combine: true });
      messages.push({ round: 2 * ranks - rank, from: rank + 1, to: rank, chunk: 0, combine: false });
    }
    return { chunks: 1, messages };
  },
});

const runtime = await comm.connect();
const [rank, ranks] = [comm.rank(), comm.size()];
const sum = await comm.allReduce(tensor([rank + 1, 1]), { schedule: "line" }).array();

if (rank === 0) {
  const task = { collective: "allReduce", ranks: 4, root: 0 } as const;
  console.log(comm.schedules.printSchedule(scheduleNamed("line", task)));
  const link = { latency: 1e-5, bandwidth: 1e9 };
  const neighbours: Topology = {
    hosts: [[0, 1, 2, 3]],
    link: (from, to) => (Math.abs(from - to) === 1 ? link : undefined),
  };
  const places = { "all links": uniform(4, link), "a line": neighbours };
  for (const [name, topology] of Object.entries(places)) {
    const [best] = rankedSchedules(task, 4096, topology);
    console.log(`${name}: ${best?.schedule.name}, ${((best?.seconds ?? 0) * 1e6).toFixed(1)} us`);
  }
  console.log(`${ranks} ranks: ${JSON.stringify(sum)}`);
}
runtime.close();
