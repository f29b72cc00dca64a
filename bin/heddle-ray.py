"""Starts the agents of `heddle run --with ray` in Ray: one placement group, and an actor in it for each worker.

heddle run starts this file in a job of Ray; it stays until all agents have ended. HEDDLE_SECRET reaches the agents as an argument of a
method, never on a command line.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(max_restarts=0)
class Agent:
    """A process in which one agent runs."""

    def run(self, command, rank, secret):
        environment = {**os.environ, "RANK": str(rank), "HEDDLE_SECRET": secret}
        return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


@contextlib.contextmanager
def quiet():
    """Keeps back what Ray prints, such as warnings of many processes, unless what is done fails; gives a way to print all the same."""
    errors = os.dup(2)
    with tempfile.TemporaryFile() as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        try:
            yield lambda text: os.write(errors, f"{text}\n".encode())
        except BaseException:
            os.dup2(errors, 2)
            said.seek(0)
            os.write(2, said.read())
            raise
        finally:
            os.dup2(errors, 2)
            os.close(errors)


def main():
    parser = argparse.ArgumentParser(prog="--engine-args")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--cpus", type=float, default=1, help="processors that Ray counts for a worker")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs that Ray counts for a worker")
    parser.add_argument("--strategy", default="PACK", choices=["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
    parser.add_argument("--agent", nargs=argparse.REMAINDER, required=True)
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with quiet() as say:
        return start(wanted, say)


def start(wanted, say):
    ray.init(logging_level="ERROR", log_to_driver=False)
    bundle = {"CPU": wanted.cpus, **({"GPU": wanted.gpus} if wanted.gpus else {})}
    # All workers get their places, or none.
    group = placement_group([bundle] * wanted.workers, strategy=wanted.strategy)
    try:
        if not group.wait(10):
            say("Ray has no room for all workers yet; waiting")
            ray.get(group.ready())
        agents = []
        for index in range(wanted.workers):
            place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
            agents.append(Agent.options(num_cpus=wanted.cpus, num_gpus=wanted.gpus, scheduling_strategy=place).remote())
        secret = os.environ["HEDDLE_SECRET"]
        ends = [agent.run.remote(wanted.agent, rank, secret) for rank, agent in enumerate(agents)]
        return status_of(ray.get(ends))
    finally:
        remove_placement_group(group)


def status_of(codes):
    """The exit status for those of the agents: the first failure; 128 + the signal for an agent that a signal ended."""
    failed = next((code for code in codes if code != 0), 0)
    return failed if failed >= 0 else 128 - failed


if __name__ == "__main__":
    sys.exit(main())
