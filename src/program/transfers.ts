/** @module Checks that the programs of a pipeline agree on their messages, however long a send waits for its receiver. */
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { formatGrid, type GridCell } from "../plan/pipeline/grid.ts";
import { HeddleError } from "../util/errors.ts";
import { type CollectiveStep, isTransfer, type Program, type Step } from "./program.ts";

/** The step, if it sends or receives. */
export const transfersOf = (step: Step): CollectiveStep[] =>
  step.kind === "collective" && isTransfer(step) ? [step] : [];

/**
 * Simulates the sends and receives of the programs along an axis under the strictest rule: a send ends only when its
 * receiver has arrived.
 *
 * @throws HeddleError `program` when a receive does not match its send, or when all ranks wait; the message shows the
 * actions of each rank, with the steps at fault marked.
 */
export function verifyTransfers(programs: readonly Program[]): void {
  const lists = programs.map(({ steps }) => steps.flatMap(transfersOf));
  const next = lists.map(() => 0);
  const nextTransfer = (rank: number): CollectiveStep | undefined => lists[rank]?.[next[rank] as number];
  for (let progress = true; progress; ) {
    progress = false;
    for (const rank of lists.keys()) {
      for (let step = nextTransfer(rank); step?.op === "send"; step = nextTransfer(rank)) {
        const peer = step.attrs["peer"] as number;
        const receive = nextTransfer(peer);
        if (receive?.op !== "receive" || receive.attrs["peer"] !== rank) break;
        const [sent, expected] = [
          typesOf(programs[rank] as Program, step.arguments),
          typesOf(programs[peer] as Program, receive.results),
        ];
        if (step.label !== receive.label || !sameTypes(sent, expected))
          throw fault(
            programs,
            lists,
            next,
            [rank, peer],
            `rank ${rank} sends ${describe(step, sent)}, but rank ${peer} receives ${describe(receive, expected)}`,
          );
        next[rank] = (next[rank] as number) + 1;
        next[peer] = (next[peer] as number) + 1;
        progress = true;
      }
    }
  }
  const waiting = [...lists.keys()].filter((rank) => nextTransfer(rank) !== undefined);
  if (waiting.length === 0) return;
  const waits = waiting.map((rank) => {
    const { op, label, attrs } = nextTransfer(rank) as CollectiveStep;
    return `rank ${rank} waits to ${op} '${label}' ${op === "send" ? "to" : "from"} rank ${String(attrs["peer"])}`;
  });
  throw fault(programs, lists, next, waiting, `deadlock: ${waits.join(", ")}`);
}

const typesOf = (program: Program, values: readonly number[]): TensorType[] =>
  values.map((value) => program.values[value] as TensorType);

const sameTypes = (left: readonly TensorType[], right: readonly TensorType[]): boolean =>
  left.length === right.length && left.every((type, index) => sameType(type, right[index] as TensorType));

const describe = ({ label }: CollectiveStep, types: readonly TensorType[]): string =>
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
