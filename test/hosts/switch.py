"""A network between namespaces, in user space: it delays, loses and drops packets as it is told, where the kernel has no netem.

    python3 switch.py a=10.77.0.1,fd77::1 b=10.77.0.2,fd77::2

Makes the network interface hd0 in each namespace. Each line of the input is a JSON object, which is answered by a line "ok":
{"from": "a", "to": "b", "delay": seconds, "loss": share, "rate": bytes per second, "drop": true, "ports": [first, last]}.
With "ports", only packets to those TCP ports are dropped. Names may be "*". Ends with its input.
"""

import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MTU = 9000


def interface(namespace, addresses, index):
    name = f"hdt{os.getpid() % 100000}{index}"
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    run = lambda *words: subprocess.run(("ip",) + words, check=True)
    run("link", "set", name, "netns", namespace, "name", "hd0")
    for address in addresses:
        bits, more = ("64", ["nodad"]) if ":" in address else ("24", [])
        run("-n", namespace, "addr", "add", f"{address}/{bits}", "dev", "hd0", *more)
    run("-n", namespace, "link", "set", "hd0", "mtu", str(MTU), "up")
    run("-n", namespace, "link", "set", "lo", "up")
    return descriptor


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def target(packet):
    """The address that a packet is for, and its TCP port, or None."""
    if packet[0] >> 4 == 4:
        start, protocol, to = (packet[0] & 15) * 4, packet[9], packet[16:20]
    else:
        start, protocol, to = 40, packet[6], packet[24:40]
    return to, struct.unpack_from("!H", packet, start + 2)[0] if protocol == 6 else None


class Link:
    """One direction between two namespaces."""

    def __init__(self):
        self.delay = self.loss = 0.0
        self.rate = 0
        self.drop = False
        self.ports = None
        self.free = 0.0


def main(arguments):
    hosts = {}
    for argument in arguments:
        name, addresses = argument.split("=")
        hosts[name] = addresses.split(",")
    names = list(hosts)
    descriptors = {name: interface(name, hosts[name], index) for index, name in enumerate(names)}
    owners = {packed(address): name for name in names for address in hosts[name]}
    links = {(a, b): Link() for a in names for b in names}
    by_descriptor = {descriptor: name for name, descriptor in descriptors.items()}
    chance = random.Random(7)
    queue, count, pending = [], 0, b""
    poll = select.poll()
    for descriptor in [0, *descriptors.values()]:
        poll.register(descriptor, select.POLLIN)
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        wait = None if not queue else max(0, (queue[0][0] - now) * 1000)
        for descriptor, _ in poll.poll(wait):
            if descriptor == 0:
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    change = json.loads(line)
                    for (a, b), link in links.items():
                        if change["from"] in (a, "*") and change["to"] in (b, "*"):
                            vars(link).update({key: change[key] for key in change if key not in ("from", "to")})
                    print("ok", flush=True)
                continue
            for _ in range(64):
                try:
                    packet = os.read(descriptor, MTU + 100)
                except BlockingIOError:
                    break
                except OSError:
                    # The namespace is gone, and its interface with it.
                    return
                to, port = target(packet)
                owner = owners.get(to)
                if owner is None:
                    continue
                link = links[by_descriptor[descriptor], owner]
                blocked = link.ports is None or (port is not None and link.ports[0] <= port <= link.ports[1])
                if (link.drop and blocked) or chance.random() < link.loss:
                    continue
                now = time.monotonic()
                link.free = max(link.free, now) + (len(packet) / link.rate if link.rate else 0)
                # A full queue drops what comes.
                if link.free - now > 0.5:
                    link.free -= len(packet) / link.rate
                    continue
                count += 1
                heapq.heappush(queue, (link.free + link.delay, count, descriptors[owner], packet))
        now = time.monotonic()
        while queue and queue[0][0] <= now:
            _, _, descriptor, packet = heapq.heappop(queue)
            try:
                os.write(descriptor, packet)
            except OSError:
                pass


if __name__ == "__main__":
    main(sys.argv[1:])
