/**
 * @module The part of Kubernetes' API that `heddle run --with k8s` uses, with answers in the form of its API reference: objects that are made,
 * pods that run and end, their logs. Each request is recorded.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** How a pod of the run goes. */
export interface PodStory {
  /** What it prints; the second part comes when the pod ends. */
  readonly log: readonly [string | Buffer, string | Buffer];
  readonly exitCode: number;
}

/** A server for one run. */
export class KubernetesServer {
  /** `POST /apis/batch/v1/namespaces/default/jobs`, … in order; reads of pods, logs and the job are left out. */
  readonly changes: string[] = [];
  /** The bodies of what was made, by kind. */
  readonly made = new Map<string, Record<string, unknown>>();
  /** Refuses what is made with this kind. */
  refuse: string | undefined;
  /** Decides of each request (`GET pods`, `DELETE jobs/train`, …) whether its connection breaks, before or after it has had its effect, or it has a status. */
  trouble: ((request: string) => "before" | "after" | number | undefined) | undefined;
  private readonly server: Server;
  private readonly stories: readonly PodStory[];
  private readonly endless: boolean;
  private polls = 0;

  /** @param endless whether the pods never end by themselves */
  constructor(stories: readonly PodStory[], endless = false) {
    this.stories = stories;
    this.endless = endless;
    this.server = createServer((request, response) => void this.answer(request, response));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  private get ended(): boolean {
    return !this.endless && this.polls > 3;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { pathname } = new URL(request.url ?? "", "http://x");
    const send = (status: number, value: object): void => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(value));
    };
    const { method } = request;
    const trouble = this.trouble?.(`${method} ${pathname.replace(/^.*\/namespaces\/\w+\//, "")}`);
    if (trouble === "before") return void request.socket.destroy();
    if (typeof trouble === "number")
      return send(trouble, { kind: "Status", apiVersion: "v1", status: "Failure", code: trouble, message: "not now" });
    if (method === "POST") {
      const body = JSON.parse(Buffer.concat(parts).toString("utf8")) as Record<string, unknown>;
      this.changes.push(`POST ${pathname}`);
      if (body["kind"] === this.refuse)
        return send(403, {
          kind: "Status",
          apiVersion: "v1",
          status: "Failure",
          code: 403,
          message: "jobs is forbidden",
        });
      if (this.made.has(body["kind"] as string))
        return send(409, { kind: "Status", apiVersion: "v1", status: "Failure", code: 409, message: "already exists" });
      this.made.set(body["kind"] as string, body);
      if (trouble === "after") return void request.socket.destroy();
      return send(201, body);
    }
    if (method === "DELETE") {
      this.changes.push(`DELETE ${pathname}`);
      return send(200, { kind: "Status", apiVersion: "v1", status: "Success" });
    }
    if (/^\/api(s\/[\w.-]+)?\/v1(alpha2)?$/.test(pathname)) return send(200, resources[pathname] ?? {});
    if (/\/pods$/.test(pathname)) {
      this.polls++;
      const items = this.polls === 1 ? [] : this.stories.map((story, rank) => this.podOf(story, rank));
      return send(200, { kind: "PodList", apiVersion: "v1", metadata: {}, items });
    }
    const pod = /\/pods\/train-(\d)\/log$/.exec(pathname);
    if (pod !== null) {
      const [first, second] = this.stories[Number(pod[1])]?.log ?? ["", ""];
      response.writeHead(200, { "Content-Type": "text/plain" });
      response.write(first);
      if (trouble === "after") return void setTimeout(() => request.socket.destroy(), 200);
      const wait = setInterval(() => {
        if (!this.ended) return;
        clearInterval(wait);
        response.end(second);
      }, 50);
      response.once("close", () => clearInterval(wait));
      return;
    }
    const secret = /\/secrets\/train$/.test(pathname) ? this.made.get("Secret") : undefined;
    if (secret !== undefined) return send(200, secret);
    const job = this.made.get("Job") ?? this.made.get("JobSet");
    const failed = this.stories.some(({ exitCode }) => exitCode !== 0);
    const type = failed ? "Failed" : job?.["kind"] === "Job" ? "Complete" : "Completed";
    const message = "Job has reached the specified backoff limit";
    const conditions = this.ended ? [{ type, status: "True", ...(failed ? { message } : {}) }] : [];
    return send(200, { ...job, status: { conditions } });
  }

  private podOf({ exitCode }: PodStory, rank: number): object {
    const phase = this.ended ? (exitCode === 0 ? "Succeeded" : "Failed") : "Running";
    const finishedAt = `2026-01-01T00:00:0${rank}Z`;
    const state = this.ended ? { terminated: { exitCode, finishedAt } } : { running: {} };
    return {
      metadata: { name: `train-${rank}`, uid: `uid-${rank}`, namespace: "default" },
      status: { phase, containerStatuses: [{ name: "worker", state }] },
    };
  }
}

const verbs = ["create", "delete", "get", "list"];
const list = (groupVersion: string, ...kinds: [kind: string, name: string][]): object => ({
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion,
  resources: kinds.map(([kind, name]) => ({ kind, name, singularName: "", namespaced: true, verbs })),
});

/** What the client asks first about the resources of a group. */
const resources: Record<string, object> = {
  "/api/v1": list("v1", ["Secret", "secrets"], ["Service", "services"], ["Pod", "pods"]),
  "/apis/batch/v1": list("batch/v1", ["Job", "jobs"]),
  "/apis/networking.k8s.io/v1": list("networking.k8s.io/v1", ["NetworkPolicy", "networkpolicies"]),
  "/apis/jobset.x-k8s.io/v1alpha2": list("jobset.x-k8s.io/v1alpha2", ["JobSet", "jobsets"]),
};
