"""`assay verify`: are the bundles, seals and ledger of a path what they claim to be."""

from __future__ import annotations

from pathlib import Path

import click

from cells.errors import EvidenceError
from flows.cli.output import emit, json_option
from flows.cli.store import disk_faults


@click.command(
    "verify",
    epilog="Example: assay verify studies/quickstart --head sha256:0f3c... (the head printed in the report)",
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--head", help="A ledger head that must be known: shows rows lost or rewritten since it was printed.")
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), help="A PEM public key (Ed25519) that must have signed."
)
@json_option
def command(path: Path, head: str | None, key: Path | None, as_json: bool) -> None:
    """Check a bundle, a study, a studies root or an export. Changes nothing.

    Integrity (digests, completeness, seals, contract, ledger chain) decides the exit code: 0 when all hold, else 4.
    Authenticity (heads, signatures) and permission (policy.json) are reported apart.
    """
    from cells.evidence.verify import Expected, verify_path

    with disk_faults(path):
        report = verify_path(path, Expected(head, key))
    emit(report.as_json(), as_json=as_json, text=_text(report))
    if not report.ok:
        raise EvidenceError(f"{path}: {len(report.problems)} problems in {report.checked} bundles; nothing was changed")


def _text(report: object) -> str:
    from cells.evidence.verify import VerifyReport

    assert isinstance(report, VerifyReport)
    lines = [f"{report.kind} {report.path}: {report.checked} bundles checked, {len(report.problems)} problems"]
    lines += [f"  {problem.kind:12} {problem.path}: {problem.detail}" for problem in report.problems[:50]]
    if len(report.problems) > 50:
        lines.append(f"  ... and {len(report.problems) - 50} more (--json lists all)")
    for title, facts in (("authenticity", report.authenticity), ("permission", report.permission)):
        if facts:
            lines.append(f"{title}: " + ", ".join(f"{key} {value}" for key, value in facts.items()))
    return "\n".join(lines)
