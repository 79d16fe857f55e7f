"""The program that fills a layer: what its digest covers, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.incell.trusted import layer
from cells.incell.trusted.layer import describe, fill
from cells.incell.trusted.layer_python import FillFailed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "run").write_bytes(b"program")
    (tmp_path / "bin" / "run").chmod(0o755)
    (tmp_path / "bin" / "alias").symlink_to("run")
    return tmp_path


def test_a_digest_covers_path_mode_content_and_link_and_no_time(tree: Path) -> None:
    digest, files, size = describe(str(tree))
    assert digest.startswith("sha256:") and (files, size) == (2, 7)
    (tree / "bin" / "run").touch()
    assert describe(str(tree))[0] == digest
    seen = {digest}
    for change in (
        lambda: (tree / "bin" / "run").write_bytes(b"programs"),
        lambda: (tree / "bin" / "run").chmod(0o700),
        lambda: (tree / "bin" / "run").rename(tree / "run"),
        lambda: (tree / "other").symlink_to("run"),
    ):
        change()
        seen.add(describe(str(tree))[0])
    assert len(seen) == 5


def test_the_marker_is_written_last_and_an_empty_layer_gets_none(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = describe(str(tree))[0]
    monkeypatch.setattr(layer, "LAYER", str(tree))
    assert fill({"client": "npm", "name": "x"}, bytearray())["content_sha256"] == expected
    assert (tree / "layer.json").is_file()
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.setattr(layer, "LAYER", str(empty))
    with pytest.raises(FillFailed, match="empty"):
        fill({"client": "npm", "name": "x"}, bytearray())
    assert not (empty / "layer.json").exists()
