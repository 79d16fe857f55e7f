"""The panels of reliability and provenance: what was tried and lost, and where every number comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scoring.report.contents import Provenance, Revision, StudyContents
from scoring.report.markup import Child, Html, cells_link, element, facts, join, table
from scoring.report.numbers import counted

_SHORT = 19


def reliability_panel(contents: StudyContents) -> Html:
    """Attempts, losses, contamination, controls, withheld tasks."""
    return join(facts(_reliability(contents)), _arm_states(contents), _named(contents))


def provenance_panel(contents: StudyContents) -> Html:
    """Plan, ledger, runtimes, images, tasks."""
    found = contents.provenance
    return join(
        facts((name, element("code", value)) for name, value in found.facts),
        _revisions(found.revisions),
        _runtimes(found),
        _images(contents, found),
    )


def _reliability(contents: StudyContents) -> Iterator[tuple[Child, Child]]:
    found, controls = contents.reliability, contents.reliability.controls
    yield "cells", f"{found.accepted} of {found.planned} with an accepted attempt"
    lost = sum(found.lost.values())
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(found.lost.items()))
    yield (
        "attempts",
        f"{found.attempts} published, {lost} lost to the infrastructure{': ' + reasons if reasons else ''}",
    )
    yield "cells tried more than once", str(found.retried_cells)
    expected = f"{controls['as_expected']} of {controls['done']} ended as they must ({controls['total']} planned)"
    names = list(contents.design.controls)
    yield "controls", cells_link(expected, arm=names) if names else "none planned"
    contaminated = sum(bool(row["contaminated"]) for row in contents.rows)
    yield "contaminated", cells_link(counted(contaminated, "cell"), contaminated="yes") if contaminated else "0 cells"
    invalid = sum(row["verdict"] == "invalid" for row in contents.rows)
    if not contents.blind:
        yield "invalid verdicts", cells_link(str(invalid), verdict="invalid") if invalid else "0"
    yield "superseded results", str(found.superseded)
    regraded = sum((row["verification"] or 1) > 1 for row in contents.rows)
    yield (
        "regraded",
        f"{counted(regraded, 'cell')}: the verdict is that of a later verification" if regraded else "0 cells",
    )
    unknown = f"; {counted(found.cost_unknown, 'cell')} of unknown cost" if found.cost_unknown else ""
    yield "spent", (found.cost or "no known cost") + unknown
    for look in found.unblinded:
        yield "unblinded", look


def _arm_states(contents: StudyContents) -> Html:
    """Planned cells of each arm by what is known of them."""
    words = ("resolved", "unresolved", "invalid")
    rows: list[list[Child]] = []
    for arm in (*contents.design.arms, *contents.design.controls):
        own = contents.rows_of(arm)
        verdicts = Counter(str(row["verdict"]) for row in own)
        missing = sum(row["arm"] == arm for row in contents.open_cells)
        known = ["hidden"] * 3 if contents.blind else [_verdict(arm, word, verdicts[word]) for word in words]
        dirty = sum(bool(row["contaminated"]) for row in own)
        shown = cells_link(str(dirty), arm=arm, contaminated="yes") if dirty else "0"
        rows.append([cells_link(arm, arm=arm), str(len(own) + missing), *known, str(missing), shown])
    header = ("arm", "cells", *words, "no result", "contaminated")
    return table(header, rows, caption="Cells by arm; controls never enter a comparison")


def _verdict(arm: str, word: str, count: int) -> Child:
    return cells_link(str(count), arm=arm, verdict=word) if count else "0"


def _named(contents: StudyContents) -> Html:
    found = contents.reliability
    parts = []
    if found.withheld:
        parts.append(table(("withheld task", "reason"), list(found.withheld.items()), caption="Tasks kept out"))
    if found.dropped:
        parts.append(table(("cell", "reason"), list(found.dropped.items()), caption="Results left out"))
    lacking = [row for row in contents.open_cells if row["arm"] in contents.design.arms]
    if lacking:
        named = [
            (str(row["task"]), str(row["arm"]), str(row["sample"]), str(row["verdict"] or "open")) for row in lacking
        ]
        parts.append(
            table(
                ("task", "arm", "sample", "state"),
                named[:200],
                caption=f"{counted(len(lacking), 'cell')} without a result",
            )
        )
    return join(*parts)


def _revisions(revisions: tuple[Revision, ...]) -> Html:
    rows = [
        (
            str(one.number),
            "yes" if one.after_verdict else "no",
            str(one.accepted_before),
            "yes" if one.verdicts_seen else "no",
            str(one.changed_cells),
            element("span", "; ".join(one.design) or "–", class_="prose"),
        )
        for one in revisions
    ]
    header = ("revision", "after the first verdict", "accepted before", "verdicts seen", "cells changed", "design")
    return table(header, rows, caption="Revisions of the plan") if rows else element("p", "The plan was never revised.")


def _runtimes(found: Provenance) -> Html:
    rows = []
    for one in found.runtimes:
        described = ", ".join(f"{name} {value}" for name, value in one.description.items())
        rows.append(
            (
                element("code", one.digest[:_SHORT], title=one.digest),
                str(one.cells),
                element("span", described, class_="prose"),
            )
        )
    return table(("runtime", "cells", "what it is"), rows, caption="Machines and engines of accepted attempts")


def _images(contents: StudyContents, found: Provenance) -> Html:
    image_of = {task: image for image, tasks in found.images.items() for task in tasks}
    rows = [
        (
            cells_link(task, task=task),
            element("code", digest[:_SHORT], title=digest),
            element("code", image_of[task][:_SHORT], title=image_of[task]) if task in image_of else "–",
            "admitted without control" if task in contents.design.without_control else "",
        )
        for task, digest in found.tasks.items()
    ]
    inner = table(("task", "frozen task", "image", ""), rows, caption="Tasks and the images in which they ran")
    return element("details", element("summary", f"{counted(len(rows), 'task')} and their images"), inner)
