/** @module A cluster of Slurm: munged, slurmctld and two slurmd that stand for hosts, with a partition whose jobs pre-empt the others'. */
import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Desk } from "./desk.ts";

const configuration = (folder: string): string => `ClusterName=heddle
SlurmctldHost=localhost(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=${folder}/munge/socket,cred_expire=5
SlurmUser=root
SlurmctldPort=17000
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=node[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=32
PartitionName=long Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
`;

/** Starts the cluster; gives the variables by which Slurm's commands find it. */
export async function startSlurm(desk: Desk): Promise<Record<string, string>> {
  desk.addAddress();
  const folder = join(desk.folder, "slurm");
  for (const name of ["", "munge", "state", "node1", "node2"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "munge.key"), randomBytes(1024), { mode: 0o400 });
  writeFileSync(join(folder, "slurm.conf"), configuration(folder));
  writeFileSync(join(folder, "cgroup.conf"), "IgnoreSystemd=yes\nConstrainCores=no\n");
  const munge = ["socket", "pid-file", "log-file", "seed-file"].map((name) => {
    const file = name === "socket" ? "socket" : name.replace("-file", "");
    return `--${name}=${join(folder, "munge", file)}`;
  });
  const variables = { SLURM_CONF: join(folder, "slurm.conf") };
  const daemons = [
    desk.daemon(["munged", "--foreground", "--force", `--key-file=${join(folder, "munge.key")}`, ...munge]),
    desk.daemon(["slurmctld", "-D"], variables),
    desk.daemon(["slurmd", "-D", "-N", "node1"], variables),
    desk.daemon(["slurmd", "-D", "-N", "node2"], variables),
  ];
  for (let tries = 0; tries < 100; tries++) {
    const { stdout } = await desk.start(["sinfo", "--noheader", "--Format=StateCompact,Nodes"], variables).ended;
    if (/^idle\s+2\s*$/m.test(stdout)) return variables;
    const ended = daemons.find(({ child }) => child.exitCode !== null);
    if (ended !== undefined) throw new Error(`a daemon of Slurm has ended:\n${ended.output()}`);
    await sleep(300);
  }
  throw new Error(`Slurm's nodes do not come up:\n${daemons.map((daemon) => daemon.output()).join("\n")}`);
}
