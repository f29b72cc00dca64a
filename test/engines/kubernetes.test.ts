/** Runs in Kubernetes: the manifests, and the client against a server of the tests. No cluster is needed. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { k8s } from "../../src/launch/engines/k8s.ts";
import { objectsOf, yamlOf } from "../../src/launch/engines/k8s-objects.ts";
import { KubernetesServer, type PodStory } from "./kubernetes-server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const job = (options: Record<string, string>, args: string[] = []) =>
  objectsOf({ file: "src/My_train.ts", args, workers: 4, options: { image: "registry/app:1", ...options } });

/** A field of an object of a kind, by its path. */
function at(objects: readonly object[], kind: string, ...path: (string | number)[]): unknown {
  const object = objects.find((candidate) => (candidate as { kind: string }).kind === kind);
  return path.reduce<unknown>((value, key) => (value as Record<string | number, unknown>)[key], object);
}
const template = ["spec", "template", "spec"] as const;
const container = [...template, "containers", 0] as const;

describe("manifests", () => {
  test("a job has a pod for each worker, and pods that find each other by name", () => {
    const objects = job({ claim: "state" }, ["--lr", "0.1"]);
    expect(objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      "NetworkPolicy my-train",
      "Secret my-train",
      "Service my-train",
      "Job my-train",
    ]);
    expect(at(objects, "Job", "spec")).toMatchObject({
      completionMode: "Indexed",
      completions: 4,
      parallelism: 4,
      backoffLimit: 12,
    });
    expect(at(objects, "Job", ...template, "subdomain")).toBe(at(objects, "Service", "metadata", "name"));
    const run = ["run", "src/My_train.ts", "--timeout", "600", "--resume", "--", "--lr", "0.1"];
    expect(at(objects, "Job", ...container, "args")).toEqual(run);
    const variables = at(objects, "Job", ...container, "env");
    expect(variables).toContainEqual({ name: "WORLD_SIZE", value: "4" });
    expect(variables).toContainEqual({ name: "MASTER_ADDR", value: "my-train-0.my-train" });
  });

  test("pods have no rights, a secret from a file, and no way in from elsewhere", () => {
    const objects = job({});
    expect(at(objects, "Job", ...template)).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      containers: [
        {
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
        },
      ],
    });
    const secret = at(objects, "Secret", "stringData", "secret") as string;
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(JSON.stringify(at(objects, "Job"))).not.toContain(secret);
    const labels = at(objects, "Job", "spec", "template", "metadata", "labels");
    expect(at(objects, "NetworkPolicy", "spec")).toEqual({
      podSelector: { matchLabels: labels },
      policyTypes: ["Ingress"],
      ingress: [{ from: [{ podSelector: { matchLabels: labels } }] }],
    });
  });

  test("a JobSet starts all workers again, with its number of restarts as the epoch", () => {
    const objects = job({ kind: "jobset", restarts: "5", secret: "mine" });
    expect(objects.map(({ kind }) => kind)).toEqual(["NetworkPolicy", "JobSet"]);
    expect(at(objects, "JobSet", "spec", "failurePolicy", "maxRestarts")).toBe(5);
    const inner = ["spec", "replicatedJobs", 0, "template", "spec"];
    expect(at(objects, "JobSet", ...inner, "backoffLimit")).toBe(0);
    const variables = at(objects, "JobSet", ...inner, "template", "spec", "containers", 0, "env");
    expect(variables).toContainEqual({ name: "MASTER_ADDR", value: "my-train-workers-0-0.my-train" });
    expect(variables).toContainEqual({
      name: "HEDDLE_EPOCH",
      valueFrom: { fieldRef: { fieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']" } },
    });
  });

  test.each([
    [{ image: "" }, /--image names the image/],
    [{ name: "Big" }, /--name 'Big' is no name of Kubernetes/],
    [{ kind: "pod" }, /--kind is job or jobset, not 'pod'/],
    [{ memory: "lots" }, /--memory 'lots' is no quantity/],
    [{ claim: "a", mount: "x" }, /--mount 'x' is no absolute path/],
    [{ claim: "a", mount: "/tmp" }, /--mount '\/tmp' would hide \/tmp of the pod/],
    [{ claim: "a", mount: "/tmp/" }, /--mount '\/tmp\/' would hide \/tmp of the pod/],
    [{ claim: "a", mount: "/" }, /--mount '\/' would hide \/tmp of the pod/],
    [{ claim: "a", mount: "/app" }, /--mount '\/app' would hide \/app\/node_modules of the pod/],
    [{ claim: "a", mount: "/a/../tmp" }, /--mount '\/a\/\.\.\/tmp' is no absolute path/],
    [{ mount: "/state" }, /--mount is where --claim is mounted, which is missing/],
    [{ claim: "team..a" }, /--claim 'team\.\.a' is no name/],
    [{ namespace: "a.b" }, /--namespace 'a\.b' is no name/],
    [{ namespace: "a".repeat(64) }, /--namespace 'a+' is no name/],
    [{ secret: "s".repeat(254) }, /--secret 's+' is no name/],
    [{ name: "2026" }, /--name '2026' is no name/],
    [{ timeout: "soon" }, /--timeout 'soon' is not a number of seconds/],
    [{ timeout: "0" }, /--timeout '0' is not a number of seconds/],
    [{ restarts: "-1" }, /--restarts '-1' is not a number/],
  ])("%o is refused", (options, says) => expect(() => job(options as Record<string, string>)).toThrow(says));

  test.each([
    [{ claim: "team.checkpoints" }, "Job", [...template, "volumes", 2, "persistentVolumeClaim", "claimName"]],
    [{ namespace: "2026-lab" }, "Job", ["metadata", "namespace"]],
    [{ secret: "s".repeat(253) }, "Job", [...template, "volumes", 0, "secret", "secretName"]],
    [{ mount: "/app/checkpoints", claim: "a" }, "Job", [...container, "volumeMounts", 2, "mountPath"]],
    [{ mount: "/tmp/state", claim: "a" }, "Job", [...container, "volumeMounts", 2, "mountPath"]],
    [{ timeout: "90" }, "Job", [...container, "args", 3]],
  ])("%o is taken as it is", (options, kind, path) =>
    expect(at(job(options as Record<string, string>), kind, ...path)).toBe(Object.values(options)[0]),
  );

  test("the Dockerfile's steps install packages of the project, and none of the host's", () => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-image-"));
    const project = join(folder, "project");
    const image = join(folder, "image");
    const npm = (cwd: string, ...words: string[]) => {
      const quiet = ["--offline", "--no-audit", "--no-fund", "--cache", join(folder, "cache")];
      const { status, stdout, stderr } = spawnSync("npm", [...words, ...quiet], { cwd, encoding: "utf8" });
      expect({ status, output: status === 0 ? "" : stdout + stderr }).toEqual({ status: 0, output: "" });
    };
    for (const [path, text] of Object.entries({
      "heddle/package.json": '{ "name": "heddle", "version": "1.0.0" }',
      "heddle/bin/heddle.js": "console.log('in the image')",
      "project/package.json": '{ "name": "train", "version": "1.0.0" }',
      "project/packages/readme": "",
    })) {
      mkdirSync(join(folder, path, ".."), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    npm(join(folder, "heddle"), "pack", "--pack-destination", join(project, "packages"));
    npm(project, "install", "./packages/heddle-1.0.0.tgz");
    writeFileSync(join(project, "node_modules/of-the-host.js"), "");
    const steps = readFileSync(join(root, "docs/engines/Dockerfile"), "utf8").split("\n");
    mkdirSync(image);
    // Also without the file of what stays out.
    for (const step of steps) {
      const [word = "", ...rest] = step.split(" ");
      if (word === "RUN") npm(image, ...rest.slice(1));
      if (word !== "COPY") continue;
      for (const from of rest.slice(0, -1))
        cpSync(join(project, from), rest.length > 2 ? join(image, from) : image, { recursive: true });
    }
    const entry = JSON.parse((steps.find((step) => step.startsWith("ENTRYPOINT ")) ?? "").slice(11)) as string[];
    const { stdout } = spawnSync(process.execPath, entry.slice(1), { cwd: image, encoding: "utf8" });
    expect(stdout).toBe("in the image\n");
    expect(existsSync(join(image, "node_modules/of-the-host.js"))).toBe(false);
    rmSync(folder, { recursive: true });
  });

  const validator = fileURLToPath(new URL("../../.heddle/engines/bin/kubernetes-validate", import.meta.url));
  test.skipIf(!existsSync(validator))("fit the published schemas of Kubernetes", () => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-manifests-"));
    const file = join(folder, "job.yaml");
    const text = job({ claim: "state", namespace: "lab" }, ["--lr", "0.1"])
      .map((object) => `---${yamlOf(object)}`)
      .join("");
    const check = (manifest: string) => {
      writeFileSync(file, manifest);
      return spawnSync(validator, ["--strict", file], { encoding: "utf8" });
    };
    const { status, stdout, stderr } = check(text);
    expect({ status, output: stdout + stderr }).toMatchObject({ status: 0 });
    expect((stdout + stderr).match(/passed for resource/g)).toHaveLength(4);
    expect(check(text.replace("completions: 4", "complet: 4")).status).not.toBe(0);
    rmSync(folder, { recursive: true });
  });

  test("YAML quotes every text, and nests as JSON does", () => {
    const value = { a: [{ b: "no", c: [] }, ["x", 1]], "d e": { f: true, g: {} }, h: 'say "x": #1' };
    expect(yamlOf(value)).toBe(
      '\na:\n  - b: "no"\n    c: []\n  - - "x"\n    - 1\n"d e":\n  f: true\n  g: {}\nh: "say \\"x\\": #1"\n',
    );
    expect(k8s.job?.write({ file: "a.ts", args: [], workers: 1, options: { image: "i" } })).toMatch(
      /^---\napiVersion: /,
    );
  });
});

describe("a run, against a server of the tests", () => {
  let folder: string;
  const running = new Set<ChildProcess>();
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "heddle-k8s-"));
    writeFileSync(join(folder, "train.ts"), "");
  });
  afterEach(() => {
    for (const child of running) child.kill("SIGKILL");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Starts `heddle run --with k8s`. */
  async function start(server: KubernetesServer, engineArgs = "--image app:1", flags: readonly string[] = []) {
    const url = await server.listen();
    const config = join(folder, "config");
    writeFileSync(
      config,
      `apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: "${url}", insecure-skip-tls-verify: true}}]\n` +
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n",
    );
    const words = ["run", join(folder, "train.ts"), "--with", "k8s", "-n", "2", "--grace", "1", ...flags];
    const child = spawn(process.execPath, ["bin/heddle.js", ...words, "--engine-args", engineArgs], {
      cwd: root,
      env: { ...process.env, KUBECONFIG: config, NO_COLOR: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    const ended = once(child, "close").then(([status]) => {
      running.delete(child);
      server.close();
      return { status: status as number | null, output };
    });
    return { child, ended, output: () => output };
  }

  const story = (rank: number, exitCode = 0): PodStory => ({
    log: [`${rank === 0 ? "" : `[rank ${rank}] `}begins\n${rank}a`, `${rank}b\nends`],
    exitCode,
  });
  const made = [
    "POST /apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    "POST /api/v1/namespaces/default/secrets",
    "POST /api/v1/namespaces/default/services",
    "POST /apis/batch/v1/namespaces/default/jobs",
  ];
  const removed = [
    "DELETE /apis/batch/v1/namespaces/default/jobs/train",
    "DELETE /api/v1/namespaces/default/services/train",
    "DELETE /api/v1/namespaces/default/secrets/train",
    "DELETE /apis/networking.k8s.io/v1/namespaces/default/networkpolicies/train",
  ];

  test("makes the objects, prints whole lines of all pods, and removes the objects", async () => {
    const server = new KubernetesServer([story(0), story(1)]);
    const { status, output } = await (await start(server)).ended;
    expect(output.split("\n").sort()).toEqual(["", "0a0b", "1a1b", "[rank 1] begins", "begins", "ends", "ends"]);
    expect(status).toBe(0);
    expect(server.changes).toEqual([...made, ...removed]);
    expect(server.made.get("Job")).toMatchObject({ spec: { completions: 2 } });
  });

  test("a failed job has the status of the pod that failed first", async () => {
    const { status, output } = await (await start(new KubernetesServer([story(0, 1), story(1, 7)]))).ended;
    expect(status).toBe(1);
    expect(output).toContain("heddle: Kubernetes: Job has reached the specified backoff limit");
    expect((await (await start(new KubernetesServer([story(0), story(1, 7)]))).ended).status).toBe(7);
  });

  test("a JobSet is made and followed, too", async () => {
    const server = new KubernetesServer([story(0), story(1)]);
    const { status } = await (await start(server, "--image app:1 --kind jobset --namespace lab")).ended;
    expect(status).toBe(0);
    expect(server.changes).toContain("POST /apis/jobset.x-k8s.io/v1alpha2/namespaces/lab/jobsets");
  });

  test("Ctrl-C removes the objects", async () => {
    const server = new KubernetesServer([story(0), story(1)], true);
    const run = await start(server);
    await expect.poll(run.output, { timeout: 30_000 }).toContain("[rank 1] begins");
    run.child.kill("SIGINT");
    expect((await run.ended).status).toBe(130);
    expect(server.changes).toEqual([...made, ...removed]);
  });

  test("what Kubernetes refuses is told, and what was made before is removed", async () => {
    const server = new KubernetesServer([story(0), story(1)]);
    server.refuse = "Job";
    const { status, output } = await (await start(server)).ended;
    expect(status).toBe(2);
    expect(output).toMatch(/^heddle: Kubernetes at http:\/\/127\.0\.0\.1:\d+: jobs is forbidden \(403\)/);
    expect(server.changes).toEqual([...made, ...removed.slice(1)]);
  });

  test("a connection that breaks, and a server that is busy, are tried again, and nothing is removed before the end", async () => {
    const server = new KubernetesServer([story(0), story(1)]);
    const met: string[] = [];
    server.trouble = (request) => {
      if (!/^GET pods$|^GET jobs|^DELETE jobs/.test(request)) return undefined;
      met.push(request);
      const times = met.filter((one) => one === request).length;
      return times === 1 ? "before" : times === 2 ? 503 : undefined;
    };
    const { status, output } = await (await start(server)).ended;
    expect(status).toBe(0);
    expect(output.match(/trying again$/gm)).toHaveLength(6);
    expect(output).toContain("not now (503); trying again");
    expect(server.changes).toEqual([...made, ...removed]);
  });

  test("the first error is told when tries end, and what could not be removed", async () => {
    const server = new KubernetesServer([story(0), story(1)], true);
    server.trouble = (request) => (request === "GET pods" ? 503 : request === "DELETE jobs/train" ? 403 : undefined);
    const { status, output } = await (await start(server, undefined, ["--timeout", "1"])).ended;
    expect(status).toBe(1);
    expect(output).toMatch(/^heddle: Kubernetes at \S+ not now \(503\)$/m);
    expect(output).toMatch(/not now \(403\); Job train is left: kubectl delete job train --namespace default$/m);
    expect(server.changes).toEqual([...made, ...removed.slice(1)]);
  });

  test.each([
    ["after", 0, removed],
    ["before", 2, [removed[3]]],
  ] as const)(
    "an object whose making broke %s its effect is the run's only if the run made it",
    async (trouble, status, gone) => {
      const server = new KubernetesServer([story(0), story(1)]);
      let broken = false;
      server.trouble = (request) => {
        if (request !== "POST secrets" || broken) return undefined;
        broken = true;
        // Of another run of the same name.
        if (trouble === "before") server.made.set("Secret", { kind: "Secret", metadata: { name: "train" } });
        return trouble;
      };
      const { ended } = await start(server);
      expect(await ended).toMatchObject({ status });
      expect(server.changes.filter((change) => change.startsWith("DELETE"))).toEqual(gone);
    },
  );

  test("letters that come in pieces are whole, and lines after a break come once", async () => {
    const text = Buffer.from("Grüße\n[rank 0] 世界\nends");
    const cut = text.indexOf("ü") + 1;
    const server = new KubernetesServer([
      { log: [text.subarray(0, cut), text.subarray(cut)], exitCode: 0 },
      { log: ["one\ntwo\nthr", "ee\nfour"], exitCode: 0 },
    ]);
    let broken = false;
    server.trouble = (request) => {
      if (request !== "GET pods/train-1/log" || broken) return undefined;
      broken = true;
      return "after";
    };
    const { status, output } = await (await start(server)).ended;
    expect(output.split("\n").sort()).toEqual(
      ["", "Grüße", "[rank 0] 世界", "ends", "four", "one", "three", "two"].sort(),
    );
    expect(status).toBe(0);
  });

  test("engine arguments are those of heddle launch", async () => {
    const { status, output } = await (await start(new KubernetesServer([]), "--imge app:1")).ended;
    expect(status).toBe(2);
    expect(output).toContain("--engine-args: '--imge' is no option with a value of Kubernetes");
  });
});
