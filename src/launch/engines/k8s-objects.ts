/** @module The objects of a run in Kubernetes: an Indexed Job or a JobSet with a pod for each worker, and what the pods need. */
import { randomBytes } from "node:crypto";
import { HeddleError } from "../../util/errors.ts";
import type { JobWanted } from "./engine.ts";

/** An object of Kubernetes. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels: Labels };
  readonly [field: string]: unknown;
}

interface Labels {
  readonly [name: string]: string;
}

/** What the objects of a run are made from. */
interface Wanted extends JobWanted {
  readonly name: string;
  readonly labels: Labels;
  readonly mount: string | undefined;
  /** The Secret with the run's secret. */
  readonly secret: string;
  readonly restarts: number;
}

const port = 29_500;
/** Of the image of docs/engines/kubernetes.md: a user without rights, and the file's folder. */
const user = 1000;
const secretFolder = "/run/heddle";
/** Seconds that a pod gets to save a checkpoint before it is killed. */
const grace = 120;

/** A label of RFC 1035, as a Service needs it, short enough for what is appended to it. */
const nameForm = /^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/;
/** A label of RFC 1123. */
const namespaceForm = /^(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;
/** A subdomain of RFC 1123. */
const subdomainForm = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
/** Folders of a pod that a claim may not cover: other volumes, and the image's packages. */
const occupied = ["/tmp", secretFolder, "/app/node_modules"];
const quantityForm = /^\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$/;

const nameOf = (file: string): string =>
  file
    .replace(/^.*\//, "")
    .replace(/\.\w+$/, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+|-+$/g, "")
    .slice(0, 40)
    .replace(/-+$/, "") || "heddle";

/** The objects of a run, in the order in which they are made. @throws HeddleError `option` */
export function objectsOf(job: JobWanted): KubernetesObject[] {
  const { file, options } = job;
  const {
    name = nameOf(file),
    image,
    claim,
    namespace,
    kind = "job",
    cpu = "2",
    memory = "4Gi",
    restarts = "3",
    timeout = "600",
  } = options;
  const check = (fits: boolean, text: string): void => {
    if (!fits) throw new HeddleError("option", text);
  };
  check(image !== undefined && /^[\w./:@-]+$/.test(image), "--image names the image with Node, Heddle and the file");
  for (const [flag, value, form, says] of [
    ["name", name, nameForm, "at most 40 of a-z, 0-9 and -, with a letter first"],
    ["namespace", namespace, namespaceForm, "at most 63 of a-z, 0-9 and -"],
    ["claim", claim, subdomainForm, "a-z, 0-9, - and ."],
    ["secret", options["secret"], subdomainForm, "a-z, 0-9, - and ."],
  ] as const)
    check(value === undefined || form.test(value), `--${flag} '${value}' is no name of Kubernetes: ${says}`);
  check(kind === "job" || kind === "jobset", `--kind is job or jobset, not '${kind}'`);
  for (const [flag, value] of [
    ["cpu", cpu],
    ["memory", memory],
  ] as const)
    check(quantityForm.test(value), `--${flag} '${value}' is no quantity of Kubernetes, such as 500m or 4Gi`);
  check(/^\d{1,4}$/.test(restarts), `--restarts '${restarts}' is not a number`);
  check(/^[1-9]\d{0,4}$/.test(timeout), `--timeout '${timeout}' is not a number of seconds`);
  check(claim !== undefined || options["mount"] === undefined, "--mount is where --claim is mounted, which is missing");
  const mount = claim === undefined ? undefined : (options["mount"] ?? "/checkpoints");
  if (mount !== undefined) {
    check(/^\/[\w./-]*$/.test(mount) && !/\/\.\.?(\/|$)/.test(mount), `--mount '${mount}' is no absolute path`);
    const folder = `${mount.replace(/\/+/g, "/").replace(/\/$/, "")}/`;
    const hidden = occupied.find((path) => `${path}/`.startsWith(folder));
    check(hidden === undefined, `--mount '${mount}' would hide ${hidden} of the pod`);
  }
  const labels = { "app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "heddle" };
  const wanted: Wanted = { ...job, name, labels, mount, secret: options["secret"] ?? name, restarts: Number(restarts) };
  const named = (version: string, what: string, fields: object): KubernetesObject => ({
    apiVersion: version,
    kind: what,
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), labels },
    ...fields,
  });
  const objects = [named("networking.k8s.io/v1", "NetworkPolicy", { spec: policyOf(labels) })];
  if (options["secret"] === undefined)
    objects.push(named("v1", "Secret", { type: "Opaque", stringData: { secret: randomBytes(32).toString("hex") } }));
  if (kind === "jobset") return [...objects, named("jobset.x-k8s.io/v1alpha2", "JobSet", { spec: jobSetOf(wanted) })];
  // Ready or not, workers must find each other by name.
  const service = {
    clusterIP: "None",
    publishNotReadyAddresses: true,
    selector: labels,
    ports: [{ name: "store", port }],
  };
  return [...objects, named("v1", "Service", { spec: service }), named("batch/v1", "Job", { spec: jobOf(wanted) })];
}

/** Nobody but the workers of the run reaches a worker. */
const policyOf = (labels: Labels): object => ({
  podSelector: { matchLabels: labels },
  policyTypes: ["Ingress"],
  ingress: [{ from: [{ podSelector: { matchLabels: labels } }] }],
});

/** Pods that were told to end, or whose host was taken away, are no failures of the run. */
const taken = (action: string): object[] => [
  { action, onPodConditions: [{ type: "DisruptionTarget", status: "True" }] },
  { action, onExitCodes: { containerName: "worker", operator: "In", values: [140] } },
];

function jobOf(wanted: Wanted): object {
  const { name, workers, restarts } = wanted;
  return {
    completionMode: "Indexed",
    completions: workers,
    parallelism: workers,
    // A worker that fails takes the others along, which then start again, too.
    backoffLimit: restarts * workers,
    podFailurePolicy: { rules: taken("Ignore") },
    template: templateOf(wanted, { master: `${name}-0.${name}`, subdomain: name, epoch: undefined }),
  };
}

function jobSetOf(wanted: Wanted): object {
  const { name, workers, restarts } = wanted;
  const attempt = "jobset.sigs.k8s.io/restart-attempt";
  const job = {
    completionMode: "Indexed",
    completions: workers,
    parallelism: workers,
    // The first failure ends the job, and the JobSet starts all workers again.
    backoffLimit: 0,
    podFailurePolicy: { rules: taken("FailJob") },
    template: templateOf(wanted, {
      master: `${name}-workers-0-0.${name}`,
      subdomain: undefined,
      epoch: { fieldRef: { fieldPath: `metadata.labels['${attempt}']` } },
    }),
  };
  return {
    network: { enableDNSHostnames: true, subdomain: name, publishNotReadyAddresses: true },
    successPolicy: { operator: "All" },
    failurePolicy: {
      maxRestarts: restarts,
      rules: [
        { name: "taken", action: "RestartJobSetAndIgnoreMaxRestarts", onJobFailureReasons: ["PodFailurePolicy"] },
      ],
    },
    replicatedJobs: [{ name: "workers", replicas: 1, template: { spec: job } }],
  };
}

interface Network {
  readonly master: string;
  readonly subdomain: string | undefined;
  readonly epoch: object | undefined;
}

function templateOf(wanted: Wanted, { master, subdomain, epoch }: Network): object {
  const { labels, mount, secret, options } = wanted;
  const volumes = [
    { name: "secret", secret: { secretName: secret, defaultMode: 0o440 } },
    { name: "tmp", emptyDir: {} },
    ...(mount === undefined
      ? []
      : [{ name: "checkpoints", persistentVolumeClaim: { claimName: options["claim"] as string } }]),
  ];
  return {
    metadata: { labels },
    spec: {
      restartPolicy: "Never",
      ...(subdomain === undefined ? {} : { subdomain }),
      terminationGracePeriodSeconds: grace,
      automountServiceAccountToken: false,
      // Variables of a service may have the names of Heddle's own.
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [containerOf(wanted, master, epoch)],
      volumes,
    },
  };
}

function containerOf(wanted: Wanted, master: string, epoch: object | undefined): object {
  const { file, args, workers, mount, options } = wanted;
  const { image, cpu = "2", memory = "4Gi", timeout = "600" } = options;
  const run = ["run", file, "--timeout", timeout, ...(mount === undefined ? [] : ["--resume"])];
  const amounts = { cpu, memory };
  const variables = {
    WORLD_SIZE: workers,
    MASTER_ADDR: master,
    MASTER_PORT: port,
    HEDDLE_SECRET_FILE: `${secretFolder}/secret`,
  };
  return {
    name: "worker",
    image,
    command: ["node", "node_modules/heddle/bin/heddle.js"],
    args: [...run, ...(args.length === 0 ? [] : ["--", ...args])],
    env: [
      ...Object.entries({ ...variables, HEDDLE_CACHE: "/tmp/heddle" }).map(([name, value]) => ({
        name,
        value: String(value),
      })),
      ...(epoch === undefined ? [] : [{ name: "HEDDLE_EPOCH", valueFrom: epoch }]),
    ],
    ports: [{ name: "store", containerPort: port }],
    resources: { requests: amounts, limits: amounts },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    // A process that is stopped, or waits for a dead volume, does not end by itself; workers notice all else of each other.
    livenessProbe: {
      exec: { command: ["sh", "-c", "grep -q '^State:.[SR]' /proc/1/status"] },
      periodSeconds: 30,
      failureThreshold: 10,
    },
    // Announces the end, so that a training saves a checkpoint first, and waits for the launcher to be gone.
    lifecycle: { preStop: { exec: { command: ["sh", "-c", "kill -USR2 1; while kill -0 1; do sleep 1; done"] } } },
    volumeMounts: [
      { name: "secret", mountPath: secretFolder, readOnly: true },
      { name: "tmp", mountPath: "/tmp" },
      ...(mount === undefined ? [] : [{ name: "checkpoints", mountPath: mount }]),
    ],
  };
}

/** Values as YAML: every text is quoted, so that none is read as anything else. */
export function yamlOf(value: unknown, indent = ""): string {
  if (typeof value !== "object" || value === null) return ` ${JSON.stringify(value)}\n`;
  const entries = Array.isArray(value) ? value : Object.entries(value);
  if (entries.length === 0) return Array.isArray(value) ? " []\n" : " {}\n";
  const inner = `${indent}  `;
  if (!Array.isArray(value)) {
    const lines = (entries as [string, unknown][]).map(
      ([key, item]) => `${indent}${/^[\w./-]+$/.test(key) ? key : JSON.stringify(key)}:${yamlOf(item, inner)}`,
    );
    return `\n${lines.join("")}`;
  }
  return `\n${entries.map((item) => `${indent}-${yamlOf(item, inner).replace(/^\n\s+/, " ")}`).join("")}`;
}
