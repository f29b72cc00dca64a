"""Lets this environment import what another has and it lacks: beside.py <python of the other>."""

import subprocess
import sys
import sysconfig
from pathlib import Path

code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
other = subprocess.run([sys.argv[1], "-c", code], check=True, capture_output=True, text=True).stdout.strip()
(Path(sysconfig.get_paths()["purelib"]) / "beside.pth").write_text(other + "\n")
