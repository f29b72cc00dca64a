/** The work of the tests of threads: the same in each. */
import { grad, jit, random, type Tensor } from "heddle";

const x = random.uniform(random.key(1), [64, 32]);
const y = random.uniform(random.key(2), [64, 1]);
const gradient = grad((w: Tensor) => x.matmul(w).tanh().sub(y).pow(2).mean());
const step = jit((w: Tensor) => w.sub(gradient(w).mul(0.1)), { donate: [0] });

/** The weights after 50 steps. */
export async function trained(): Promise<number[]> {
  let w = random.uniform(random.key(3), [32, 1]);
  for (let index = 0; index < 50; index++) w = step(w);
  return Array.from(await w.data(), Number);
}
