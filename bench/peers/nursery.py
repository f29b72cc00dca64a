"""Starts a peer as forks of this process, so that its packages are imported once: `nursery.py MODULE [PACKAGE...]`.

Each line of standard input is a start: `{"id", "env", "log"}`, with variables to add to the environment and a file for the output.
Each line of standard output is `{"id", "pid"}` for a process that has started, or `{"id", "status"}` for one that has ended.
"""

import importlib
import json
import os
import select
import signal
import sys
import traceback


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def become(module, start):
    """In the fork: runs the peer. Never returns."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(start["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    os.environ.update(start["env"])
    status = 1
    try:
        module.main()
        status = 0
    except BaseException:  # whatever it is, the harness shows it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main(name, *packages):
    module = importlib.import_module(name)
    for package in packages:
        importlib.import_module(package)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ids, rest = {}, b""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            while ids:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                say({"id": ids.pop(pid), "status": os.waitstatus_to_exitcode(status)})
        if 0 in ready:
            received = os.read(0, 1 << 16)
            if not received:
                break
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                start = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    become(module, start)
                ids[pid] = start["id"]
                say({"id": start["id"], "pid": pid})
    for pid in ids:
        os.kill(pid, signal.SIGKILL)
    # Without what the packages do at the end, which takes seconds.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
