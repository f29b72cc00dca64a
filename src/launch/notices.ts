/**
 * @module Notices that this machine is about to be taken away: a file, or what the clouds tell the machine itself. Sources: Amazon EC2 "Spot
 * Instance interruption notices" (instance-action by IMDSv2), Google Compute Engine "Preemption" (the metadata value `preempted`), Microsoft Azure "Scheduled
 * Events" (EventType Preempt).
 */
import { existsSync } from "node:fs";
import { HeddleError } from "../util/errors.ts";

/** Milliseconds for an answer. */
const answerMilliseconds = 1500;

/** Asks for a notice once: its text, or undefined if there is none. A service that does not answer has no notice. */
type Look = (base: string) => Promise<string | undefined>;

interface Cloud {
  readonly base: string;
  readonly look: Look;
}

const ask = (url: string, headers: { readonly [name: string]: string }, method = "GET"): Promise<Response> =>
  fetch(url, { method, headers, signal: AbortSignal.timeout(answerMilliseconds) });

const clouds: { readonly [name: string]: Cloud } = {
  aws: {
    base: "http://169.254.169.254",
    look: async (base) => {
      const token = await ask(`${base}/latest/api/token`, { "X-aws-ec2-metadata-token-ttl-seconds": "60" }, "PUT");
      const answer = await ask(`${base}/latest/meta-data/spot/instance-action`, {
        "X-aws-ec2-metadata-token": await token.text(),
      });
      if (!answer.ok) return undefined;
      const { action, time } = (await answer.json()) as { readonly action?: unknown; readonly time?: unknown };
      return `EC2 will ${String(action)} this machine at ${String(time)}`;
    },
  },
  gcp: {
    base: "http://metadata.google.internal",
    look: async (base) => {
      const answer = await ask(`${base}/computeMetadata/v1/instance/preempted`, { "Metadata-Flavor": "Google" });
      const isTaken = answer.ok && (await answer.text()).trim() === "TRUE";
      return isTaken ? "Compute Engine preempts this machine" : undefined;
    },
  },
  azure: {
    base: "http://169.254.169.254",
    look: async (base) => {
      const answer = await ask(`${base}/metadata/scheduledevents?api-version=2020-07-01`, { Metadata: "true" });
      if (!answer.ok) return undefined;
      const { Events: events } = (await answer.json()) as { readonly Events?: unknown };
      const found = (Array.isArray(events) ? events : []).find(
        (event: { readonly EventType?: unknown } | null) =>
          event?.EventType === "Preempt" || event?.EventType === "Terminate",
      ) as { readonly EventType: string; readonly NotBefore?: unknown } | undefined;
      return found === undefined ? undefined : `Azure announces ${found.EventType} at ${String(found.NotBefore)}`;
    },
  },
};

/** The sources of notices, as a flag names them. */
export const noticeSources = `${Object.keys(clouds).join(", ")}, or the path of a file that will appear`;

/**
 * Looks for a notice until there is one, or until the watch is ended.
 *
 * @param source `aws`, `gcp` or `azure`, another address of its service after `@`, or the path of a file
 * @param every milliseconds between two looks; default 2000: the shortest notice of a cloud is 30 s
 * @returns ends the watch
 * @throws HeddleError `option` for an address of an unknown cloud
 */
export function watchNotices(source: string, onNotice: (text: string) => void, every = 2000): () => void {
  const [, name = "", at] = /^(\w+)(?:@(https?:\/\/.+))?$/.exec(source) ?? [];
  const cloud = Object.hasOwn(clouds, name) ? clouds[name] : undefined;
  if (cloud === undefined && at !== undefined)
    throw new HeddleError("option", `there is no source of notices '${name}'`, { hint: `give ${noticeSources}` });
  const look =
    cloud === undefined
      ? async () => (existsSync(source) ? `the file ${source} is there` : undefined)
      : () => cloud.look(at ?? cloud.base);
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const next = async (): Promise<void> => {
    const text = await look().catch(() => undefined);
    if (over) return;
    if (text !== undefined) return onNotice(text);
    timer = setTimeout(() => void next(), every);
    timer.unref();
  };
  void next();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}
