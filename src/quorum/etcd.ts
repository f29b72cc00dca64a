/** @module etcd as the store of a run's log, by the JSON gateway of its third version. */
import { HeddleError } from "../util/errors.ts";
import type { Condition, QuorumStore } from "./store.ts";

/** Where a run's log is. */
export interface QuorumAddress {
  /** Addresses of the store's machines. */
  readonly endpoints: readonly string[];
  /** The run's name. */
  readonly run: string;
  /** Seconds after which another launcher takes over. */
  readonly lease: number;
}

/** Seconds of a lease, where the address says nothing else. */
const usualLease = 10;

/** Reads `etcd://a:2379,b:2379/name` or `etcd://a:2379/name?lease=5`. @throws HeddleError `option` */
export function parseQuorumAddress(text: string): QuorumAddress {
  const pattern = /^etcd:\/\/([^/]+)\/([A-Za-z0-9][A-Za-z0-9._-]{0,99})(?:\?lease=([1-9]\d{0,2}))?$/;
  const [, hosts, run, lease = usualLease] = pattern.exec(text) ?? [];
  if (hosts === undefined || run === undefined || !hosts.split(",").every((host) => /^[^:@\s]+:\d+$/.test(host)))
    throw new HeddleError("option", `--membership must be like etcd://host:2379/name, got ${text}`, {
      hint: "several hosts have commas between them; the name is the run's; ?lease=5 after it says when another launcher takes over",
    });
  return { endpoints: hosts.split(",").map((host) => `http://${host}`), run, lease: Number(lease) };
}

const encoded = (text: string): string => Buffer.from(text).toString("base64");
const decoded = (text: string): string => Buffer.from(text, "base64").toString();

/** The end of the range of keys that begin with a prefix. */
const afterPrefix = (prefix: string): string =>
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);

/** A store in etcd. `seconds`: how long a machine has to answer before the next one is asked. */
export function etcdStore({ endpoints }: Pick<QuorumAddress, "endpoints">, seconds: number): QuorumStore {
  /** The machine that has answered last. */
  let current = 0;
  const call = async <Answer>(path: string, body: unknown): Promise<Answer> => {
    let problem: unknown;
    for (let turn = 0; turn < endpoints.length; turn++) {
      const index = (current + turn) % endpoints.length;
      try {
        const response = await fetch(`${endpoints[index]}/v3/${path}`, {
          method: "POST",
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(1000 * seconds),
        });
        const text = await response.text();
        if (!response.ok) throw new Error(`${endpoints[index]} answers ${response.status} ${text.slice(0, 200)}`);
        current = index;
        return JSON.parse(text) as Answer;
      } catch (error) {
        problem = error;
      }
    }
    throw problem;
  };
  const compare = ({ key, value }: Condition) => ({
    key: encoded(key),
    result: "EQUAL",
    ...(value === undefined ? { target: "VERSION", version: "0" } : { target: "VALUE", value: encoded(value) }),
  });
  return {
    grant: async (ttl) => (await call<{ ID: string }>("lease/grant", { TTL: ttl })).ID,
    keepAlive: async (lease) => {
      const { result } = await call<{ result?: { TTL?: string } }>("lease/keepalive", { ID: lease });
      return Number(result?.TTL ?? 0) > 0;
    },
    revoke: async (lease) => {
      await call("lease/revoke", { ID: lease });
    },
    put: async (key, value, conditions, lease) => {
      const put = { key: encoded(key), value: encoded(value), ...(lease === undefined ? {} : { lease }) };
      const written = await call<{ succeeded?: boolean }>("kv/txn", {
        compare: conditions.map(compare),
        success: [{ requestPut: put }],
      });
      return written.succeeded === true;
    },
    read: async (prefix) => {
      const range = { key: encoded(prefix), range_end: encoded(afterPrefix(prefix)) };
      const { kvs = [] } = await call<{ kvs?: { key: string; value: string }[] }>("kv/range", range);
      return kvs.map(({ key, value }) => [decoded(key), decoded(value)]);
    },
  };
}
