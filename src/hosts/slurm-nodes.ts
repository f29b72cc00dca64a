/** @module Lists of hosts as Slurm writes them. */
import { HeddleError } from "../util/errors.ts";

/** No job has more hosts: a longer list is a mistake, and would take all memory. */
const most = 100_000;

/**
 * Expands a list such as `node[001-003,007],h2`: a bracket holds numbers and ranges, which keep their leading zeros, and a name may have
 * several brackets.
 *
 * @throws HeddleError `parse` for a malformed list.
 */
export function expandHosts(list: string): string[] {
  const hosts = separated(list).flatMap((name) => expandName(name.trim(), list));
  if (hosts.length > most) throw malformed(list);
  return hosts;
}

const malformed = (list: string): HeddleError =>
  new HeddleError("parse", `the list of hosts '${list}' is malformed`, {
    hint: "it has the form node[001-003,007],h2",
  });

/** Parts between commas outside of brackets. */
const separated = (list: string): string[] => list.split(/,(?![^[\]]*\])/);

function expandName(name: string, list: string): string[] {
  const match = /^([^[\]]*)\[([\d,-]+)\](.*)$/.exec(name);
  if (match === null) {
    if (name === "" || /[[\]\s]/.test(name)) throw malformed(list);
    return [name];
  }
  const [, before, inside, after] = match as unknown as [string, string, string, string];
  const ends = after === "" ? [""] : expandName(after, list);
  return inside
    .split(",")
    .flatMap((part) => numbers(part, list).flatMap((number) => ends.map((end) => before + number + end)));
}

function numbers(part: string, list: string): string[] {
  const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
  if (match === null) throw malformed(list);
  const [, first, last = first] = match as unknown as [string, string, string | undefined];
  const count = Number(last) - Number(first) + 1;
  if (count < 1 || count > most) throw malformed(list);
  return Array.from({ length: count }, (_unused, index) => String(Number(first) + index).padStart(first.length, "0"));
}
