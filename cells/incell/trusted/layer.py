"""Fills the volume of a harness layer in a container of the base image, without network, and says what it holds.

Rules:
1. Single programs are laid into the volume before this runs; wheels are installed here, with an interpreter of the
   layer's own.
2. `layer.json` is written last: a volume without it is not a layer.
3. The digest covers path, kind, mode and content of every file, no time and no owner.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

from .frames import write_frame
from .layer_python import FillFailed, install

FOLDER = "/assay/build"
LAYER = "/assay/layer"
MARKER = "layer.json"
LOG_CAP = 4 << 20
_CHUNK = 1 << 20


def main() -> None:
    """Fill LAYER from FOLDER and answer with one frame: `built`, or `failed`. Its body: the log."""
    output, log = os.dup(1), bytearray()
    try:
        with open(os.path.join(FOLDER, "request.json"), encoding="utf-8") as file:
            answer = fill(json.load(file), log)
    except (FillFailed, OSError, subprocess.SubprocessError) as error:
        log += f"{type(error).__name__}: {error}\n".encode("utf-8", "backslashreplace")
        write_frame(output, {"type": "failed"}, bytes(log[-LOG_CAP:]))
        sys.exit(1)
    write_frame(output, {"type": "built", **answer}, bytes(log[-LOG_CAP:]))


def fill(request: dict[str, str], log: bytearray) -> dict[str, object]:
    """Install what there is to install, then write the marker; its content."""
    if request["client"] == "pip":
        install(request["python"], FOLDER, LAYER, log)
    if not os.listdir(LAYER):
        raise FillFailed("the layer is empty")
    os.chmod(LAYER, 0o755)
    digest, files, size = describe(LAYER)
    marker: dict[str, object] = {"v": 1, "name": request["name"], "content_sha256": digest}
    marker.update(files=files, bytes=size)
    with open(os.path.join(LAYER, MARKER), "x", encoding="utf-8") as stream:
        json.dump(marker, stream, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    return marker


def describe(root: str) -> tuple[str, int, int]:
    """Digest of a tree, number of its files and bytes in them."""
    rows, size = [], 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names + [entry for entry in folders if os.path.islink(os.path.join(folder, entry))]):
            path = os.path.join(folder, name)
            place = os.path.relpath(path, root)
            if os.path.islink(path):
                rows.append([place, "link", os.readlink(path)])
                continue
            status = os.stat(path)
            size += status.st_size
            rows.append([place, f"{status.st_mode & 0o777:o}", _digest(path)])
    content = json.dumps(sorted(rows), separators=(",", ":")).encode("utf-8", "surrogateescape")
    return f"sha256:{hashlib.sha256(content).hexdigest()}", len(rows), size


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        while content := stream.read(_CHUNK):
            found.update(content)
    return found.hexdigest()
