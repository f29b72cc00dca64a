"""Lets a PyTorch that was built with CUDA be imported without NVIDIA's libraries.

Its libraries name about 4 GB of NVIDIA's as needed, of which nothing runs on a processor. One small library with the
missing functions takes their place: each returns 100, cudaErrorNoDevice. What computes on the processor is untouched.
Does nothing where PyTorch was built without CUDA. Needs a C compiler, as torch.compile does.
"""

import os
import re
import subprocess
import sysconfig
import tempfile

THEIRS = re.compile(r"(__cuda|cu|nccl|nvrtc|nvshmem)")
LIBRARIES = re.compile(r"lib(cu|nccl|nvrtc|nvshmem_host)[A-Za-z_]*\.so\.\d+$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    folder = os.path.join(sysconfig.get_paths()["purelib"], "torch", "lib")
    if not os.path.exists(os.path.join(folder, "libtorch_cuda.so")):
        return
    versions, needed = {}, set()
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not re.fullmatch(r"lib(torch|c10)\w*\.so", name):
            continue
        needed |= {word for word in run("objdump", "-p", path).split() if LIBRARIES.match(word)}
        for line in run("nm", "-D", "--undefined-only", path).splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            if THEIRS.match(symbol) and (version or symbol not in versions):
                versions[symbol] = version
    assembly = [".text"]
    for symbol in versions:
        assembly += [f".globl {symbol}", f".type {symbol},@function", f"{symbol}:"]
    assembly += ["mov $100, %eax", "ret", '.section .note.GNU-stack,"",@progbits', ""]
    nodes = [
        f"{wanted} {{ global: {' '.join(s + ';' for s, v in versions.items() if v == wanted)} }};\n"
        for wanted in sorted(set(versions.values()) - {""})
    ]
    with tempfile.TemporaryDirectory() as scratch:
        source, script = os.path.join(scratch, "stub.s"), os.path.join(scratch, "stub.map")
        with open(source, "w", encoding="ascii") as file:
            file.write("\n".join(assembly))
        with open(script, "w", encoding="ascii") as file:
            file.writelines(nodes)
        stub = os.path.join(folder, "libwithout_cuda.so")
        run("cc", "-shared", "-nostdlib", f"-Wl,--version-script={script}", "-o", stub, source)
    for name in needed:
        target = os.path.join(folder, name)
        if not os.path.lexists(target):
            os.symlink("libwithout_cuda.so", target)


if __name__ == "__main__":
    main()
