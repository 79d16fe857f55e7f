"""The child's program as one file, the package `cells.detection` in a zip that any interpreter runs, and the probe."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import cells.detection
from cells.evidence import files

_EPOCH = (1980, 1, 1, 0, 0, 0)
_PACKAGE = Path(cells.detection.__file__).parent

START = (
    "import resource,sys\n"
    "for name, value in (('RLIMIT_AS', 512 << 20), ('RLIMIT_FSIZE', 0), ('RLIMIT_NOFILE', 32), ('RLIMIT_CORE', 0)):\n"
    "    resource.setrlimit(getattr(resource, name), (value, value))\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from cells.detection.child import main\n"
    "main()\n"
)
"""What the interpreter is told with -c; argv[1] is the zip."""

PROBE = """
import json, os, socket, sys
seen = []
for path in sys.argv[1:]:
    try:
        os.stat(path); seen.append("stat " + path)
        open(path, "rb").close(); seen.append("open " + path)
    except OSError:
        pass
    try:
        socket.socket(socket.AF_UNIX).connect(path); seen.append("connect " + path)
    except OSError:
        pass
try:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    seen += ["interface " + name for name in names]
except OSError:
    pass
print(json.dumps({"seen": seen, "uid": os.getuid(), "python": sys.version_info[:3]}))
"""
"""Says what a process in the mechanism can see of the paths in its arguments."""


def write_program(folder: Path) -> Path:
    """Write the zip into a folder; its path. The same code gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("cells/__init__.py", _EPOCH), b"")
        for module in sorted(_PACKAGE.glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"cells/detection/{module.name}", _EPOCH), module.read_bytes())
    path = folder / "detection.zip"
    files.write_new(path, buffer.getvalue(), mode=0o444)
    path.chmod(0o444)
    return path
