/** @module Ray: a run is a job of a cluster, submitted by Ray's REST; within the job, actors of one placement group start the workers. */
import { randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { HeddleError } from "../../util/errors.ts";
import { ownVariables } from "../../util/settings.ts";
import { ownCommand, ownFile, quoted } from "../host-list.ts";
import type { AgentsWanted, Engine, EngineCommand, Missing, Submission } from "./engine.ts";
import { outputOf } from "./programs.ts";

/** Whether this process runs in a job of Ray's: then it is the launcher itself. */
const inJob = (): boolean => Boolean(ownVariables()["RAY_JOB_CONFIG_JSON_ENV_VAR"]);

/** The address of the cluster's REST, as Ray's own command finds it. */
function address(): string {
  const variables = ownVariables();
  const named = [variables["RAY_API_SERVER_ADDRESS"], variables["RAY_ADDRESS"]].find((text) =>
    /^https?:/.test(text ?? ""),
  );
  return (named ?? "http://127.0.0.1:8265").replace(/\/+$/, "");
}

/** Lines of Ray's own in the log of a job: that it starts, and the whole command. */
const ofRay = /^(?:\d{4}-\d\d-\d\d [\d:,]+\s+INFO job_manager\.py|Running entrypoint for job heddle-).*\n/gm;

/** What is read of a job. */
interface RayJob {
  readonly status: "PENDING" | "RUNNING" | "STOPPED" | "SUCCEEDED" | "FAILED";
  readonly message?: string | null;
  readonly driver_exit_code?: number | null;
}

const ended: ReadonlySet<RayJob["status"]> = new Set(["STOPPED", "SUCCEEDED", "FAILED"]);

// Not by fetch, whose headers are those of a browser, which Ray refuses.
function request(method: string, url: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const send = url.startsWith("https:") ? https.request : http.request;
    const headers =
      body === "" ? {} : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
    const sent = send(url, { method, headers, timeout: 30_000 }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") }),
      );
    });
    sent.once("timeout", () => sent.destroy(new Error("no answer in 30 s")));
    sent.once("error", reject);
    sent.end(body);
  });
}

async function call(method: string, path: string, body?: object): Promise<unknown> {
  const url = address() + path;
  let problem: string;
  try {
    const { status, text } = await request(method, url, body === undefined ? "" : JSON.stringify(body));
    if (status >= 200 && status < 300) return JSON.parse(text);
    problem = `status ${status}: ${text.trim().split("\n").at(-1)}`;
  } catch (error) {
    problem = (error as Error).message || String((error as NodeJS.ErrnoException).code);
  }
  throw new HeddleError("launcher", `Ray at ${url}: ${problem}`, {
    hint: "RAY_API_SERVER_ADDRESS names another cluster",
  });
}

async function missing(): Promise<Missing | undefined> {
  if (inJob())
    return outputOf("python3", ["-c", "import ray"]) === undefined
      ? { message: "python3 of the job has no module ray", hint: "the cluster needs pip install 'ray[default]'" }
      : undefined;
  try {
    await call("GET", "/api/version");
    return undefined;
  } catch (error) {
    return {
      message: (error as HeddleError).plain,
      hint:
        "start a cluster (pip install 'ray[default]'; ray start --head), or name one: " +
        "RAY_API_SERVER_ADDRESS=http://head:8265",
    };
  }
}

function command({ count, command: agent, args }: AgentsWanted): EngineCommand {
  const own = ["--workers", String(count), ...args, "--agent", ...agent];
  return { program: "python3", args: [ownFile("heddle-ray.py"), ...own] };
}

/** Runs a job, prints its log as it grows, and gives the exit status of its launcher. */
async function submit({ heddle, variables, stopped, write }: Submission): Promise<number> {
  const id = `heddle-${randomBytes(6).toString("hex")}`;
  // Where the launcher of the job can be told of an end: on the cluster's head, where jobs begin.
  const pid = `/tmp/${id}.pid`;
  const run = ownCommand(...heddle)
    .map(quoted)
    .join(" ");
  const told = `cd ${quoted(process.cwd())} && echo $$ > ${pid} && trap 'rm -f ${pid}' EXIT`;
  await call("POST", "/api/jobs/", {
    submission_id: id,
    entrypoint: `${told}; ${run} & trap 'kill -USR2 $!' USR2; trap 'kill -TERM $!' TERM; while wait $!; s=$?; kill -0 $! 2>/dev/null; do :; done; exit $s`,
    runtime_env: { env_vars: variables },
    metadata: { heddle: "run" },
  });
  void stopped
    .then((signal) =>
      signal === "SIGUSR2"
        ? call("POST", "/api/jobs/", { entrypoint: `kill -USR2 $(cat ${pid})` })
        : call("POST", `/api/jobs/${id}/stop`),
    )
    .catch((error: Error) => write(`heddle: ${error.message}\n`));
  let shown = 0;
  for (;;) {
    const job = (await call("GET", `/api/jobs/${id}`)) as RayJob;
    const { logs } = (await call("GET", `/api/jobs/${id}/logs`)) as { logs: string };
    // The last line may not be whole yet.
    const until = ended.has(job.status) ? logs.length : logs.lastIndexOf("\n") + 1;
    if (until > shown) write(logs.slice(shown, until).replace(ofRay, ""));
    shown = Math.max(shown, until);
    if (!ended.has(job.status)) {
      await sleep(500);
      continue;
    }
    if (job.status === "SUCCEEDED") return 0;
    if (job.status === "STOPPED") return 143;
    if (job.driver_exit_code == null) write(`heddle: Ray's job ${id} failed: ${job.message?.split("\n")[0]}\n`);
    return job.driver_exit_code ?? 1;
  }
}

export const ray: Engine = {
  name: "ray",
  title: "Ray",
  summary: "a job of a Ray cluster, whose actors start the workers",
  missing,
  agents: { rankVariables: ["RANK"], takesHosts: false, here: () => false, command },
  submits: () => !inJob(),
  submit,
};
