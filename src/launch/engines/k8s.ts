/** @module Kubernetes: `heddle launch k8s` writes an Indexed Job or a JobSet, `heddle run --with k8s` makes it, follows it and removes it. */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { V1Pod } from "@kubernetes/client-node";
import { HeddleError } from "../../util/errors.ts";
import type { Engine, JobWanted, Missing, Submission } from "./engine.ts";
import { type KubernetesObject, objectsOf, yamlOf } from "./k8s-objects.ts";
import { PodOutput } from "./k8s-output.ts";
import { mayPass, patiently } from "./patience.ts";

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

/** An object of this run: where it is made, and whose it is. */
type PlacedObject = KubernetesObject & {
  readonly metadata: { readonly namespace: string; readonly annotations: { readonly [name: string]: string } };
};

/** Names the run that has made an object. */
const runAnnotation = "heddle-run";
/** Seconds of further tries to remove what was made, when Kubernetes has not answered for long. */
const lastTries = 10;

class KubernetesRun {
  private readonly client: Client;
  private readonly config: InstanceType<Client["KubeConfig"]>;
  private readonly api: ReturnType<Client["KubernetesObjectApi"]["makeApiClient"]>;
  private readonly job: Submission;
  private readonly outputs = new Map<string, PodOutput>();
  private readonly readings: AbortController[] = [];
  private readonly made: PlacedObject[] = [];
  private readonly stopping = new AbortController();

  constructor(kubernetes: Client, job: Submission) {
    this.client = kubernetes;
    this.job = job;
    this.config = new kubernetes.KubeConfig();
    this.config.loadFromDefault();
    this.api = kubernetes.KubernetesObjectApi.makeApiClient(this.config);
  }

  async run(objects: readonly KubernetesObject[]): Promise<number> {
    const namespace =
      objects[0]?.metadata.namespace ?? this.config.getContextObject(this.config.getCurrentContext())?.namespace;
    const annotations = { [runAnnotation]: randomBytes(8).toString("hex") };
    const placed: PlacedObject[] = objects.map((object) => ({
      ...object,
      metadata: { ...object.metadata, namespace: namespace ?? "default", annotations },
    }));
    void this.job.stopped.then(() => this.stopping.abort());
    let seconds = this.job.patience;
    try {
      for (const object of placed) if (!this.stopping.signal.aborted) await this.create(object);
      return await this.follow(placed.at(-1) as PlacedObject);
    } catch (error) {
      if (this.stopping.signal.aborted) return 143;
      seconds = Math.min(seconds, lastTries);
      throw this.explained(error);
    } finally {
      await this.remove(seconds);
      await this.lastLines(1000 * this.job.grace);
      for (const reading of this.readings) reading.abort();
    }
  }

  /** Makes a request until Kubernetes answers. */
  private request<T>(attempt: (failed: number) => Promise<T>, seconds: number, signal?: AbortSignal): Promise<T> {
    return patiently(attempt, {
      seconds,
      passes: (error) => mayPass((error as { code?: number | string }).code),
      say: (error) => this.job.write(`heddle: ${this.explained(error).plain}; trying again\n`),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  private async create(object: PlacedObject): Promise<void> {
    const { signal } = this.stopping;
    let unsure = false;
    try {
      await this.request(
        async (failed) => {
          unsure = failed > 0;
          try {
            await this.api.create(object);
          } catch (error) {
            // A try that seemed to fail may have made it.
            if (!(failed > 0 && (error as { code?: number }).code === 409 && (await this.isOwn(object)))) throw error;
          }
          this.made.push(object);
        },
        // Where nothing was made yet, nothing is lost, and the address is more likely wrong.
        this.made.length === 0 ? Math.min(this.job.patience, lastTries) : this.job.patience,
        signal,
      );
    } catch (error) {
      const { code } = error as { code?: number | string };
      unsure ||= mayPass(code);
      if (unsure && (await this.isOwn(object).catch(() => false))) this.made.push(object);
      // Kubernetes has answered, and refuses: the options or the rights are wrong.
      if (typeof code === "number" && !mayPass(code)) throw this.explained(error, "launcher");
      throw error;
    }
  }

  private async isOwn(object: PlacedObject): Promise<boolean> {
    const { metadata } = await this.api.read(object);
    return metadata?.annotations?.[runAnnotation] === object.metadata.annotations[runAnnotation];
  }

  /** Removes what was made; what cannot be removed is named. */
  private async remove(seconds: number): Promise<void> {
    // The job first, whose pods need the rest to the end.
    for (const object of this.made.splice(0).reverse())
      try {
        await this.request(
          () => this.api.delete(object, undefined, undefined, undefined, undefined, "Background"),
          seconds,
        );
      } catch (error) {
        if ((error as { code?: number }).code === 404) continue;
        const { kind, metadata } = object;
        const named = `${kind.toLowerCase()} ${metadata.name} --namespace ${metadata.namespace}`;
        this.job.write(
          `heddle: ${this.explained(error).plain}; ${kind} ${metadata.name} is left: kubectl delete ${named}\n`,
        );
      }
  }

  /** Waits until pods have said all, at most for so many milliseconds. */
  private async lastLines(milliseconds: number): Promise<void> {
    const late = new AbortController();
    await Promise.race([
      Promise.all([...this.outputs.values()].map(({ ended }) => ended)),
      sleep(milliseconds, undefined, { signal: late.signal }).catch(() => {}),
    ]);
    late.abort();
  }

  /** Prints what pods say until the job has ended; its exit status. */
  private async follow(job: PlacedObject): Promise<number> {
    const core = this.config.makeApiClient(this.client.CoreV1Api);
    const { signal } = this.stopping;
    const { namespace, labels } = job.metadata;
    const labelSelector = Object.entries(labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(",");
    const ask = <T>(attempt: () => Promise<T>): Promise<T> => this.request(attempt, this.job.patience, signal);
    while (!signal.aborted) {
      const { items } = await ask(() => core.listNamespacedPod({ namespace, labelSelector }));
      for (const pod of items) this.followPod(pod, namespace);
      const { status } = (await ask(() => this.api.read(job))) as { status?: { conditions?: Condition[] } };
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
    if (!/^(Running|Succeeded|Failed)$/.test(status?.phase ?? "")) return;
    let output = this.outputs.get(uid);
    if (output === undefined) {
      const log = new this.client.Log(this.config);
      output = new PodOutput(
        async (sink) => void this.readings.push(await log.log(namespace, name, "worker", sink, { follow: true })),
        this.job.write,
        (error) =>
          this.job.write(`heddle: the output of pod ${name} cannot be read yet: ${this.explained(error).plain}\n`),
      );
      this.outputs.set(uid, output);
    }
    output.read();
  }

  private explained(error: unknown, as: "io" | "launcher" = "io"): HeddleError {
    if (error instanceof HeddleError) return error;
    const { code, body, message } = error as { code?: number | string; body?: unknown; message: string };
    let said = message;
    try {
      said = (JSON.parse(String(body)) as { message?: string }).message ?? message;
    } catch {
      // Not an answer of Kubernetes'.
    }
    const server = this.config.getCurrentCluster()?.server;
    return new HeddleError(as, `Kubernetes at ${server}: ${said}${code === undefined ? "" : ` (${code})`}`, {
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
