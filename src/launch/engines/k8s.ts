/** @module Kubernetes: `heddle launch k8s` writes an Indexed Job or a JobSet, `heddle run --with k8s` makes it, follows it and removes it. */
import { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";
import { HeddleError } from "../../util/errors.ts";
import type { Engine, JobWanted, Missing, Submission } from "./engine.ts";
import { type KubernetesObject, objectsOf, yamlOf } from "./k8s-objects.ts";

type Client = typeof import("@kubernetes/client-node");

const install = "npm install @kubernetes/client-node@1.4.0, where Heddle is installed";

/** Kubernetes' client is no dependency of Heddle's: it is large, and few need it. @throws HeddleError `launcher` if it is absent */
async function client(): Promise<Client> {
  try {
    return await import("@kubernetes/client-node");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new HeddleError("launcher", "there is no @kubernetes/client-node here", { hint: install });
  }
}

async function missing(): Promise<Missing | undefined> {
  let found: Client;
  try {
    found = await client();
  } catch (error) {
    if (error instanceof HeddleError) return { message: error.plain, hint: install };
    throw error;
  }
  const configuration = new found.KubeConfig();
  configuration.loadFromDefault();
  if (configuration.getCurrentCluster() !== null) return undefined;
  return {
    message: "no cluster of Kubernetes is configured here",
    hint: "KUBECONFIG names a file that kubectl uses, too",
  };
}

const options = [
  { flags: "--image <image>", says: "the image with Node, Heddle and the file (docs/engines/kubernetes.md)" },
  { flags: "--kind <kind>", says: "job (an Indexed Job) or jobset", default: "job" },
  { flags: "--name <name>", says: "the name of all objects (default: the file's)" },
  { flags: "--namespace <name>", says: "the namespace (default: that of the commands)" },
  { flags: "--cpu <quantity>", says: "processors of each worker", default: "2" },
  { flags: "--memory <quantity>", says: "memory of each worker", default: "4Gi" },
  { flags: "--claim <name>", says: "a volume claim for checkpoints, which many pods may write; the run then resumes" },
  { flags: "--mount <path>", says: "where the claim is", default: "/checkpoints" },
  { flags: "--secret <name>", says: "a Secret with the key secret (default: one with a random value is written)" },
  { flags: "--restarts <number>", says: "how often a failed run starts again", default: "3" },
  { flags: "--timeout <seconds>", says: "how long a worker waits for another, also for its image", default: "600" },
];

/** Options of `heddle launch k8s` in `--engine-args`. @throws HeddleError `option` */
function parsed(words: readonly string[]): JobWanted["options"] {
  const names = options.map(({ flags }) => flags.split(" ")[0] as string);
  const result: { [name: string]: string } = {};
  for (let index = 0; index < words.length; index += 2) {
    const [flag = "", value] = words.slice(index, index + 2);
    if (!names.includes(flag) || value === undefined)
      throw new HeddleError("option", `--engine-args: '${flag}' is no option with a value of Kubernetes`, {
        hint: `there are ${names.join(", ")}`,
      });
    result[flag.slice(2)] = value;
  }
  return result;
}

/** Makes the objects of a run, prints the output of its pods, and removes the objects when the run has ended. */
async function submit(job: Submission): Promise<number> {
  const { file, args, workers, engineArgs } = job;
  const objects = objectsOf({ file, args, workers, options: parsed(engineArgs) });
  return new KubernetesRun(await client(), job).run(objects);
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

class KubernetesRun {
  private readonly client: Client;
  private readonly config: InstanceType<Client["KubeConfig"]>;
  private readonly job: Submission;
  private readonly followed = new Map<string, Promise<void>>();
  private readonly readings: AbortController[] = [];
  private stopping = false;

  constructor(kubernetes: Client, job: Submission) {
    this.client = kubernetes;
    this.job = job;
    this.config = new kubernetes.KubeConfig();
    this.config.loadFromDefault();
  }

  async run(objects: readonly KubernetesObject[]): Promise<number> {
    const api = this.client.KubernetesObjectApi.makeApiClient(this.config);
    const namespace =
      objects[0]?.metadata.namespace ?? this.config.getContextObject(this.config.getCurrentContext())?.namespace;
    const placed = objects.map((object) => ({
      ...object,
      metadata: { ...object.metadata, namespace: namespace ?? "default" },
    }));
    const made: KubernetesObject[] = [];
    const remove = async (): Promise<void> => {
      // The job first, whose pods need the rest to the end.
      for (const object of made.splice(0).reverse())
        await api
          .delete(object, undefined, undefined, undefined, undefined, "Background")
          .catch((error: { code?: number }) => {
            if (error.code !== 404) throw error;
          });
    };
    void this.job.stopped.then(() => {
      this.stopping = true;
    });
    try {
      for (const object of placed) {
        await api.create(object);
        made.push(object);
      }
      const last = placed.at(-1) as KubernetesObject & { metadata: { namespace: string } };
      return await this.follow(last, async () => (await api.read(last)) as { status?: { conditions?: Condition[] } });
    } catch (error) {
      throw this.explained(error);
    } finally {
      await remove();
      await this.lastLines(1000 * this.job.grace);
      for (const reading of this.readings) reading.abort();
    }
  }

  /** Waits until pods have said all, at most for so many milliseconds. */
  private async lastLines(milliseconds: number): Promise<void> {
    const late = new AbortController();
    await Promise.race([
      Promise.all(this.followed.values()),
      sleep(milliseconds, undefined, { signal: late.signal }).catch(() => {}),
    ]);
    late.abort();
  }

  /** Prints what pods say until the job has ended; its exit status. */
  private async follow(
    { metadata }: { metadata: { namespace: string; labels: { readonly [name: string]: string } } },
    read: () => Promise<{ status?: { conditions?: Condition[] } }>,
  ): Promise<number> {
    const core = this.config.makeApiClient(this.client.CoreV1Api);
    const labelSelector = Object.entries(metadata.labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(",");
    while (!this.stopping) {
      const { items } = await core.listNamespacedPod({ namespace: metadata.namespace, labelSelector });
      for (const pod of items) this.followPod(pod, metadata.namespace);
      const { status } = await read();
      const end = status?.conditions?.find(
        (condition) => condition.status === "True" && /^(Complete|Completed|Failed)$/.test(condition.type),
      );
      if (end === undefined) {
        await Promise.race([sleep(500), this.job.stopped]);
        continue;
      }
      await this.lastLines(5000);
      if (end.type !== "Failed") return 0;
      this.job.write(`heddle: Kubernetes: ${end.message ?? "the job has failed"}\n`);
      return failedStatus(items);
    }
    return 143;
  }

  /** Prints the output of a pod from its beginning, once the pod has started. */
  private followPod({ metadata, status }: V1Pod, namespace: string): void {
    const { uid = "", name = "" } = metadata ?? {};
    if (this.followed.has(uid) || !/^(Running|Succeeded|Failed)$/.test(status?.phase ?? "")) return;
    let pending = "";
    const whole = (text: string): void => {
      const lines = (pending + text).split("\n");
      pending = lines.pop() ?? "";
      // Lines of two pods never mix; the worker has put its rank before them.
      if (lines.length > 0) this.job.write(`${lines.join("\n")}\n`);
    };
    const shown = new Promise<void>((resolve) => {
      const sink = new Writable({
        write: (bytes: Buffer, _encoding, done) => {
          whole(bytes.toString("utf8"));
          done();
        },
      });
      sink.once("close", () => {
        if (pending !== "") whole("\n");
        resolve();
      });
      new this.client.Log(this.config)
        .log(namespace, name, "worker", sink, { follow: true })
        .then((reading) => void this.readings.push(reading))
        .catch((error: unknown) => {
          this.job.write(`heddle: the output of pod ${name} cannot be read: ${this.explained(error).plain}\n`);
          resolve();
        });
    });
    this.followed.set(uid, shown);
  }

  private explained(error: unknown): HeddleError {
    if (error instanceof HeddleError) return error;
    const { code, body, message } = error as { code?: number | string; body?: unknown; message: string };
    let said = message;
    try {
      said = (JSON.parse(String(body)) as { message?: string }).message ?? message;
    } catch {
      // Not an answer of Kubernetes'.
    }
    const server = this.config.getCurrentCluster()?.server;
    return new HeddleError("launcher", `Kubernetes at ${server}: ${said}${code === undefined ? "" : ` (${code})`}`, {
      cause: error,
    });
  }
}

/** The exit status of the pod that failed first. */
function failedStatus(pods: readonly V1Pod[]): number {
  const failures = pods.flatMap(({ status }) =>
    (status?.containerStatuses ?? []).flatMap(({ state }) => {
      const { exitCode = 0, finishedAt } = state?.terminated ?? {};
      return exitCode === 0 ? [] : [{ exitCode, at: Number(finishedAt ?? 0) }];
    }),
  );
  return failures.sort((a, b) => a.at - b.at)[0]?.exitCode ?? 1;
}

export const k8s: Engine = {
  name: "k8s",
  title: "Kubernetes",
  summary: "an Indexed Job or a JobSet; --engine-args '--image <image>'; heddle launch k8s writes the manifest",
  missing,
  submit,
  job: {
    options,
    use: "kubectl apply -f train.yaml",
    write: (job) =>
      objectsOf(job)
        .map((object) => `---${yamlOf(object)}`)
        .join(""),
  },
};
