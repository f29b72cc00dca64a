/** @module Ray: a run is a job of a cluster, submitted by Ray's REST; within the job, actors of one placement group start the workers. */
import { randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { HeddleError } from "../../util/errors.ts";
import { ownVariables } from "../../util/settings.ts";
import { ownCommand, ownFile, quoted } from "../host-list.ts";
import type { AgentsWanted, Engine, EngineCommand, Missing, Submission } from "./engine.ts";
import { mayPass, patiently } from "./patience.ts";
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
    sent.once("timeout", () => sent.destroy(Object.assign(new Error("no answer in 30 s"), { code: "ETIMEDOUT" })));
    sent.once("error", reject);
    sent.end(body);
  });
}

/** What Ray's server refuses, or the network that does not reach it. */
class RayProblem extends HeddleError {
  /** The status of the answer, or Node's code of the error. */
  readonly reason: number | string | undefined;

  constructor(url: string, said: string, reason: number | string | undefined) {
    super("launcher", `Ray at ${url}: ${said}`, { hint: "RAY_API_SERVER_ADDRESS names another cluster" });
    this.reason = reason;
  }
}

async function call(method: string, path: string, body?: object): Promise<unknown> {
  const url = address() + path;
  const { status, text } = await request(method, url, body === undefined ? "" : JSON.stringify(body)).catch(
    (error: NodeJS.ErrnoException) => {
      throw new RayProblem(url, error.message || String(error.code), error.code);
    },
  );
  if (status < 200 || status >= 300)
    throw new RayProblem(url, `status ${status}: ${text.trim().split("\n").at(-1)}`, status);
  try {
    return JSON.parse(text);
  } catch {
    throw new RayProblem(url, `the answer is not JSON: ${text.slice(0, 80)}`, undefined);
  }
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

/** The script of a job. `$!` is the launcher, which is told of an end by the process of `pid`. */
function entrypoint(run: readonly string[], pid: string): string {
  const words = run.map(quoted).join(" ");
  return (
    `{ cd ${quoted(process.cwd())} && echo $$ > ${pid}; } || exit 1; trap 'rm -f ${pid}' EXIT; ${words} & ` +
    "trap 'kill -USR2 $!' USR2; trap 'kill -TERM $!' TERM; while wait $!; s=$?; kill -0 $! 2>/dev/null; do :; done; exit $s"
  );
}

/** Runs a job, prints its log as it grows, and gives the exit status of its launcher. */
async function submit({ heddle, variables, stopped, patience, write }: Submission): Promise<number> {
  const id = `heddle-${randomBytes(6).toString("hex")}`;
  // Where the launcher of the job can be told of an end: on the cluster's head, where jobs begin.
  const pid = `/tmp/${id}.pid`;
  const ask = <T>(attempt: (failed: number) => Promise<T>): Promise<T> =>
    patiently(attempt, {
      seconds: patience,
      passes: (error) => error instanceof RayProblem && mayPass(error.reason),
      say: (error) => write(`heddle: ${(error as RayProblem).plain}; trying again\n`),
    });
  await ask(async (failed) => {
    // A try that seemed to fail may have begun the job.
    if (failed > 0 && (await begun(id))) return;
    await call("POST", "/api/jobs/", {
      submission_id: id,
      entrypoint: entrypoint(ownCommand(...heddle), pid),
      runtime_env: { env_vars: variables },
      metadata: { heddle: "run" },
    });
  });
  void stopped
    .then((signal) =>
      ask(() =>
        signal === "SIGUSR2"
          ? call("POST", "/api/jobs/", { entrypoint: `kill -USR2 $(cat ${pid})` })
          : call("POST", `/api/jobs/${id}/stop`),
      ),
    )
    .catch((error: Error) => write(`heddle: ${error.message}\n`));
  try {
    return await follow(id, (path) => ask(() => call("GET", path)), write);
  } catch (error) {
    if (!(error instanceof RayProblem)) throw error;
    throw new HeddleError("io", `${error.plain}; the job ${id} goes on`, {
      hint: `ray job logs --follow ${id} shows its output, ray job stop ${id} ends it`,
      cause: error,
    });
  }
}

async function begun(id: string): Promise<boolean> {
  try {
    await call("GET", `/api/jobs/${id}`);
    return true;
  } catch (error) {
    if (error instanceof RayProblem && error.reason === 404) return false;
    throw error;
  }
}

/** Characters of a log for which another poll of the status goes by before the log is read again: Ray gives it whole each time. */
const charactersOfPoll = 50_000;
/** The most polls between two readings. */
const mostPolls = 60;

/** Prints a job's log until the job has ended; its exit status. */
async function follow(
  id: string,
  get: (path: string) => Promise<unknown>,
  write: (text: string) => void,
): Promise<number> {
  let shown = 0;
  let pollsLeft = 0;
  for (;;) {
    const job = (await get(`/api/jobs/${id}`)) as RayJob;
    const atEnd = ended.has(job.status);
    if (atEnd || --pollsLeft <= 0) {
      const { logs } = (await get(`/api/jobs/${id}/logs`)) as { logs: string };
      pollsLeft = Math.min(mostPolls, 1 + Math.floor(logs.length / charactersOfPoll));
      // The last line may not be whole yet.
      const until = atEnd ? logs.length : logs.lastIndexOf("\n") + 1;
      if (until > shown) write(logs.slice(shown, until).replace(ofRay, ""));
      shown = Math.max(shown, until);
    }
    if (!atEnd) {
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
