/** Two workers that call a collective differently, as the first argument says: each prints the error that it gets. */
import { comm, type HeddleError, type Tensor, tensor } from "heddle";

const runtime = await comm.connect();
const rank = comm.rank();
const x = tensor([rank, 2]);
const calls: { readonly [name: string]: () => Tensor } = {
  root: () => comm.broadcast(x, { root: rank }),
  "root in a function": () => comm.perDevice((y: Tensor) => comm.gather(y, { root: comm.rank() }))(x),
  pairs: () => comm.permute(x, { pairs: rank === 0 ? [[0, 1]] : [] }),
  collective: () => (rank === 0 ? comm.allReduce(x) : comm.broadcast(x)),
};
let said = "nothing";
try {
  await (calls[process.argv[2] as string] as () => Tensor)().array();
} catch (error) {
  said = (error as HeddleError).message;
}
console.log(`RESULT ${JSON.stringify(said)}`);
runtime.close();
