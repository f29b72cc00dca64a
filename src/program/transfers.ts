/** @module Checks that the programs of a pipeline agree on what they send, however long a send waits for its receiver. */
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { formatGrid, type GridCell } from "../plan/pipeline/schedule.ts";
import { HeddleError } from "../util/errors.ts";
import { type CollectiveStep, isTransfer, type Program, type Step } from "./program.ts";

const transfersOf = (step: Step): CollectiveStep[] => (step.kind === "collective" && isTransfer(step) ? [step] : []);

/**
 * Runs the sends and receives of the programs at the coordinates of an axis, in the hardest way: a send ends only when
 * its receiver is there.
 *
 * @throws HeddleError `program` when a receiver expects something else than is sent, or all wait; the message shows what
 * each rank does, with the steps at fault marked.
 */
export function verifyTransfers(programs: readonly Program[]): void {
  const lists = programs.map(({ steps }) => steps.flatMap(transfersOf));
  const next = lists.map(() => 0);
  const at = (rank: number): CollectiveStep | undefined => lists[rank]?.[next[rank] as number];
  for (let moved = true; moved; ) {
    moved = false;
    for (const rank of lists.keys()) {
      for (let step = at(rank); step?.op === "send"; step = at(rank)) {
        const peer = step.attrs["peer"] as number;
        const other = at(peer);
        if (other?.op !== "receive" || other.attrs["peer"] !== rank) break;
        const [sent, expected] = [
          typesOf(programs[rank] as Program, step.arguments),
          typesOf(programs[peer] as Program, other.results),
        ];
        if (step.label !== other.label || !sameTypes(sent, expected))
          throw fault(
            programs,
            lists,
            next,
            [rank, peer],
            `rank ${rank} sends ${say(step, sent)}, but rank ${peer} receives ${say(other, expected)}`,
          );
        next[rank] = (next[rank] as number) + 1;
        next[peer] = (next[peer] as number) + 1;
        moved = true;
      }
    }
  }
  const waiting = [...lists.keys()].filter((rank) => at(rank) !== undefined);
  if (waiting.length === 0) return;
  const waits = waiting.map((rank) => {
    const { op, label, attrs } = at(rank) as CollectiveStep;
    return `rank ${rank} waits to ${op} '${label}' ${op === "send" ? "to" : "from"} rank ${String(attrs["peer"])}`;
  });
  throw fault(programs, lists, next, waiting, `deadlock: ${waits.join(", ")}`);
}

const typesOf = (program: Program, values: readonly number[]): TensorType[] =>
  values.map((value) => program.values[value] as TensorType);

const sameTypes = (one: readonly TensorType[], other: readonly TensorType[]): boolean =>
  one.length === other.length && one.every((type, index) => sameType(type, other[index] as TensorType));

const say = ({ label }: CollectiveStep, types: readonly TensorType[]): string =>
  `'${label}' ${types.map(formatType).join(", ")}`;

/** `0F1` where a rank computes, `0F1→1` where it sends, `1→1B0` where it receives. */
function fault(
  programs: readonly Program[],
  lists: readonly (readonly CollectiveStep[])[],
  next: readonly number[],
  ranks: readonly number[],
  what: string,
): HeddleError {
  const rows = programs.map(({ steps }, rank) =>
    steps.flatMap((step): GridCell[] => {
      if (step.kind === "run") return [{ text: step.region.name }];
      if (step.kind !== "collective" || !isTransfer(step)) return [];
      const peer = String(step.attrs["peer"]);
      const text = step.op === "send" ? `${step.label}→${peer}` : `${peer}→${step.label}`;
      return [{ text, marked: ranks.includes(rank) && lists[rank]?.[next[rank] as number] === step }];
    }),
  );
  return new HeddleError("program", `program '${programs[0]?.name}': ${what}\n${formatGrid(rows)}`);
}
