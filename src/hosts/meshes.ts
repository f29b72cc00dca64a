/**
 * @module Finds ranks that join different meshes, or count different numbers of ranks: each would wait for others who never come.
 *
 * Every rank leaves in the store which meshes it has joined, with the one that it is joining at the end.
 */
import { HeddleError } from "../util/errors.ts";

interface Store {
  set(key: string, value: string): Promise<void>;
  tryGet(key: string): Promise<string | null>;
}

/** What a rank leaves. */
interface Joining {
  readonly size: number;
  readonly meshes: readonly string[];
}

const lookMilliseconds = 250;
/** A rank may join two meshes at once: it gets this time to say so. */
const graceMilliseconds = 1000;

/** The meshes that this process has joined, by the number of the run's attempt. */
const joined = new Map<number, string[]>();

/** The rank of this process, and what it joins. */
export interface Joiner {
  readonly rank: number;
  readonly size: number;
  readonly epoch: number;
  /** The mesh in words; undefined if the others need not have the same. */
  readonly mesh: string | undefined;
}

/** Waits for `joining`, while other ranks join the same. @throws HeddleError `mismatch` naming both sides */
export async function joinSame<Result>(store: Store, joiner: Joiner, joining: Promise<Result>): Promise<Result> {
  const { rank, size, epoch, mesh } = joiner;
  if (mesh === undefined) return joining;
  const meshes = joined.get(epoch) ?? [];
  joined.set(epoch, meshes);
  if (!meshes.includes(mesh)) meshes.push(mesh);
  await store.set(key(epoch, rank), JSON.stringify({ size, meshes } satisfies Joining));
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const different = new Promise<never>((_resolve, reject) => {
    const began = performance.now();
    const look = async (): Promise<void> => {
      const problem = await differenceIn(store, joiner, mesh, performance.now() - began > graceMilliseconds);
      if (problem !== undefined) reject(problem);
      // A look may be under way when the ranks have met: another one would keep the process alive.
      else if (!over) timer = setTimeout(() => void look().catch(() => {}), lookMilliseconds);
    };
    // A store that is gone ends the joining.
    timer = setTimeout(() => void look().catch(() => {}), lookMilliseconds);
  });
  try {
    return await Promise.race([joining, different]);
  } finally {
    over = true;
    clearTimeout(timer);
    joining.catch(() => {});
  }
}

const key = (epoch: number, rank: number): string => `joining/${epoch}/${rank}`;

/** The first rank that counts other ranks, or joins a mesh that this rank does not join while this rank's mesh is none of its. */
async function differenceIn(
  store: Store,
  joiner: Joiner,
  mesh: string,
  late: boolean,
): Promise<HeddleError | undefined> {
  const { rank, size, epoch } = joiner;
  const own = joined.get(epoch) ?? [];
  for (let other = 0; other < size; other++) {
    const text = other === rank ? null : await store.tryGet(key(epoch, other));
    if (text === null) continue;
    const theirs = JSON.parse(text) as Joining;
    if (theirs.size !== size)
      return differ(
        "count different numbers of ranks",
        joiner,
        `WORLD_SIZE ${size}`,
        other,
        `WORLD_SIZE ${theirs.size}`,
      );
    const last = theirs.meshes.at(-1) as string;
    if (late && !theirs.meshes.includes(mesh) && !own.includes(last))
      return differ("join different meshes", joiner, mesh, other, last);
  }
  return undefined;
}

function differ(how: string, { rank }: Joiner, own: string, other: number, theirs: string): HeddleError {
  const lines =
    rank < other
      ? [`rank ${rank}: ${own}`, `rank ${other}: ${theirs}`]
      : [`rank ${other}: ${theirs}`, `rank ${rank}: ${own}`];
  return new HeddleError(
    "mismatch",
    `ranks ${Math.min(rank, other)} and ${Math.max(rank, other)} ${how}:\n  ${lines.join("\n  ")}`,
  );
}
