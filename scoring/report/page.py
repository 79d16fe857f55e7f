"""The page: sections in reading order, style, script and policy put into one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from scoring.report import sections
from scoring.report.analysis import Analysis
from scoring.report.bars import outcome_bars, phase_bars, verdict_bars
from scoring.report.cells import cells_section
from scoring.report.claim import Caveat, caveats, claim, floor_words
from scoring.report.contents import StudyContents
from scoring.report.drift_figure import drift_figure, drift_words
from scoring.report.figures import captioned
from scoring.report.forest import forest
from scoring.report.markup import Child, Html, element, join, trusted
from scoring.report.matrix import matrix, pairs_of, task_sets
from scoring.report.numbers import counted
from scoring.report.panels import provenance_panel, reliability_panel
from scoring.report.spend import frontier, spread

_PARTS = {
    "comparisons": "Comparisons",
    "arms": "Arms",
    "tasks": "Tasks × arms",
    "spending": "Cost and tokens against outcome",
    "time": "Time",
    "drift": "Drift",
    "reliability": "Reliability",
    "provenance": "Provenance",
    "cells": "Cells",
}


def page(contents: StudyContents, analysis: Analysis | None) -> bytes:
    """The whole report as UTF-8. `analysis` is None while verdicts are hidden."""
    parts = _contents(contents, analysis)
    title = f"{contents.design.study}: report"
    document = element(
        "html",
        _head(title),
        element("body", _header(contents, analysis, list(parts)), element("main", *_sections(parts)), _script()),
        lang="en",
    )
    return f"<!doctype html>\n{document}\n".encode()


def _contents(contents: StudyContents, analysis: Analysis | None) -> dict[str, Html]:
    """The sections that there is something to show for, in reading order."""
    parts: dict[str, Html] = {}
    if analysis is not None:
        parts["comparisons"] = _comparisons(analysis)
    parts["arms"] = _arms(contents, analysis)
    if analysis is not None:
        parts["tasks"] = matrix(contents, analysis)
        parts["spending"] = _spending(contents, analysis)
    parts["time"] = captioned(phase_bars(contents), "Mean of accepted attempts; waiting for a provider is part of run.")
    if analysis is not None:
        figure = drift_figure(contents)
        parts["drift"] = join(
            captioned(figure, drift_words(analysis)) if figure else element("p", drift_words(analysis))
        )
    parts["reliability"] = reliability_panel(contents)
    parts["provenance"] = provenance_panel(contents)
    sets = {} if analysis is None else task_sets(contents, pairs_of(analysis))
    parts["cells"] = cells_section(contents.rows, sets)
    return parts


def _comparisons(analysis: Analysis) -> Html:
    if not analysis.comparisons.comparisons:
        return element("p", "The plan of this study fixes no comparison; assay compare answers exploratory questions.")
    figure = forest(analysis)
    words = " ".join(floor_words(analysis, outcome) for outcome in analysis.plan.outcomes)
    caption = f"Diamonds are planned comparisons, lines their intervals, shaded bands the noise floor. {words}"
    drawn = captioned(figure, caption) if figure else element("p", words)
    return join(drawn, sections.comparison_table(analysis), sections.comparison_details(analysis))


def _arms(contents: StudyContents, analysis: Analysis | None) -> Html:
    bars = captioned(
        outcome_bars(contents), "How cells ended; a part leads to its cells. Controls stand below the arms."
    )
    if analysis is None:
        return bars
    verdicts = captioned(
        verdict_bars(contents), "Verdicts of the same cells: what is believed of the task after the run."
    )
    return join(verdicts, bars, sections.arm_summary(contents, analysis))


def _spending(contents: StudyContents, analysis: Analysis) -> Html:
    shares, spreads = frontier(contents, analysis), spread(contents)
    if shares is None or spreads is None:
        return element("p", "Neither cost nor tokens are known for any cell of the arms.")
    return join(
        captioned(shares, "One mark an arm: mean spending of a cell, share of tasks resolved with its interval."),
        captioned(spreads, "Tick: median; bar: middle half; line: 5 to 95 % of cells."),
    )


def _head(title: str) -> Html:
    style = _own_file("report.css")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        trusted(f"<style>{style}</style>"),
    )


def _policy() -> str:
    """Nothing is loaded from anywhere, and no script but this page's own runs, whatever a name in it may hold."""
    digest = base64.b64encode(hashlib.sha256(_own_file("report.js").encode()).digest()).decode()
    allowed = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{kind} {source}" for kind, source in allowed.items())


def _script() -> Html:
    return trusted(f"<script>{_own_file('report.js')}</script>")


def _own_file(name: str) -> str:
    return files("scoring.report").joinpath(name).read_text("utf-8")


def _header(contents: StudyContents, analysis: Analysis | None, parts: list[str]) -> Html:
    design = contents.design
    size = (
        f"{counted(design.tasks, 'task')} in {counted(design.repositories, 'repository', 'repositories')} × "
        f"{counted(len(design.arms), 'arm')} × {counted(design.samples, 'sample')}, revision {design.revision}"
    )
    found = caveats(contents, analysis)
    links = [element("li", element("a", _PARTS[part], href=f"#{part}")) for part in parts]
    return element(
        "header",
        element("p", "Assay report", class_="kicker"),
        element("h1", design.study),
        element("p", size, class_="size"),
        element("p", claim(contents, analysis), class_="claim"),
        element("ul", *map(_caveat, found), class_="caveats", aria_label="Before you believe it") if found else None,
        element("nav", element("ul", *links), aria_label="Sections"),
    )


def _caveat(caveat: Caveat) -> Html:
    more: Child = element("a", "more", href=caveat.target) if caveat.target else None
    mark = element("b", "Attention: " if caveat.weight == "serious" else "Note: ")
    return element("li", mark, caveat.words, " " if more else None, more, class_=caveat.weight)


def _sections(parts: dict[str, Html]) -> list[Html]:
    return [element("section", element("h2", _PARTS[name]), body, id=name) for name, body in parts.items()]
