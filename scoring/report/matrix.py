"""The matrix of tasks and arms: how many samples of each were resolved, and which pairs differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scoring.report.analysis import MAIN_OUTCOME, Analysis
from scoring.report.contents import Row, StudyContents
from scoring.report.markup import Html, cells_link, element, join, text

_MARKS = {1: "▲", -1: "▼", 0: "="}
_WORDS = {1: "treatment resolved more", -1: "control resolved more", 0: "the same", None: "not paired"}


@dataclass(frozen=True)
class Entry:
    """One task in one arm: samples resolved, with a value, planned; whether one is contaminated."""

    resolved: int
    valid: int
    planned: int
    contaminated: bool

    @property
    def share(self) -> float | None:
        """Resolved of those with a value; None when there is none."""
        return self.resolved / self.valid if self.valid else None

    @property
    def shown(self) -> str:
        """`1/2`; a dash for a cell without any value; `1/1 of 2` where samples are missing."""
        if not self.valid:
            return "–"
        short = f" of {self.planned}" if self.valid < self.planned else ""
        return f"{self.resolved}/{self.valid}{short}{' !' if self.contaminated else ''}"


def entries(rows: Iterable[Row]) -> dict[tuple[str, str], Entry]:
    """Entries by task and arm."""
    members: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        members.setdefault((str(row["task"]), str(row["arm"])), []).append(row)
    return {key: _entry(rows) for key, rows in members.items()}


def pairs_of(analysis: Analysis) -> list[tuple[str, str]]:
    """Control and treatment of each comparison, once."""
    questions = (one.question for one in analysis.comparisons.comparisons)
    return list(dict.fromkeys((one.control, one.treatment) for one in questions))


def direction(control: Entry | None, treatment: Entry | None) -> int | None:
    """1 when the treatment resolved a larger share, -1 when the control did, 0 for the same; None when not paired."""
    if control is None or treatment is None or control.share is None or treatment.share is None:
        return None
    return (treatment.share > control.share) - (treatment.share < control.share)


def task_sets(contents: StudyContents, pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Tasks of each pair by direction, named `<number>-up`, `-down`, `-tie` and `-unpaired`: what links choose."""
    found = entries(contents.compared)
    tasks = sorted({task for task, _ in found})
    sets: dict[str, list[str]] = {}
    for number, (control, treatment) in enumerate(pairs, 1):
        for task in tasks:
            way = direction(found.get((task, control)), found.get((task, treatment)))
            word = "unpaired" if way is None else ("tie", "up", "down")[way]
            sets.setdefault(f"{number}-{word}", []).append(task)
    return sets


def matrix(contents: StudyContents, analysis: Analysis) -> Html:
    """The table, rows by repository and task; a switch leaves only the tasks that differ."""
    pairs = pairs_of(analysis)
    found = entries([*contents.rows, *contents.open_cells])
    repositories = {str(row["task"]): str(row["repository"] or "") for row in (*contents.rows, *contents.open_cells)}
    arms = [*contents.design.arms, *contents.design.controls]
    several = len(pairs) > 1
    heads = ["task", "repository", *arms, *(f"{t} − {c}" if several else "pair" for c, t in pairs)]
    body = [
        _row(task, repositories[task], arms, pairs, found)
        for task in sorted(repositories, key=lambda t: (repositories[t], t))
    ]
    switch = element("label", element("input", type="checkbox", id="only-discordant"), " only tasks whose pair differs")
    head = element("thead", element("tr", *(element("th", head, scope="col") for head in heads)))
    caption = element("caption", f"Samples resolved of those with a verdict; {MAIN_OUTCOME} by task and arm")
    grid = element("table", caption, head, element("tbody", *body), class_="matrix")
    return join(element("p", switch, class_="switch"), element("div", grid, class_="scroll tall", tabindex=0))


def _row(
    task: str,
    repository: str,
    arms: list[str],
    pairs: list[tuple[str, str]],
    found: dict[tuple[str, str], Entry],
) -> Html:
    compared = {arm for pair in pairs for arm in pair}
    ways = [direction(found.get((task, control)), found.get((task, treatment))) for control, treatment in pairs]
    cells = [_cell(task, arm, found.get((task, arm)), compared) for arm in arms]
    marks = [
        element("td", _MARKS.get(way, "·") if way is not None else "·", title=_WORDS[way], class_=_way(way))
        for way in ways
    ]
    return element(
        "tr",
        element("th", cells_link(task, task=task), scope="row"),
        element("td", text(repository)),
        *cells,
        *marks,
        class_=None if any(ways) else "tie",
    )


def _cell(task: str, arm: str, entry: Entry | None, compared: set[str]) -> Html:
    """Shaded by share in arms that are compared; a control that resolves nothing is as it should be."""
    if entry is None:
        return element("td", "", class_="none")
    share = entry.share
    shade = (
        "none" if share is None or arm not in compared else "full" if share == 1 else "zero" if share == 0 else "part"
    )
    return element("td", cells_link(entry.shown, task=task, arm=arm), class_=shade)


def _way(way: int | None) -> str:
    return {1: "up", -1: "down"}.get(way or 0, "same")


def _entry(rows: list[Row]) -> Entry:
    values = [row[MAIN_OUTCOME] for row in rows if row[MAIN_OUTCOME] is not None]
    return Entry(sum(values), len(values), len(rows), any(row["contaminated"] for row in rows))
