"""Figures: drawn by matplotlib as SVG, coloured by the page's own variables, with links and tooltips inside.

Rules:
1. A figure is drawn in stand-in colours; the page's style sheet says what they are in light, dark and print.
2. The same content gives the same bytes: fixed hash salt, no date, no text measured by fonts of the machine.
3. Names given by users are text, never mathematics or markup.
4. Every mark with a number has a tooltip; where it stands for cells, it links to them.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scoring.report.markup import Html, element, trusted
from scoring.statistics.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 10.0
ROW_IN = 0.42
_VARIABLES = ("ink", "muted", "line", "band", "paper", *(f"c{number}" for number in range(1, 13)))
COLOURS = {name: f"#0a0b{number:02x}" for number, name in enumerate(_VARIABLES)}
"""Stand-in colour of each variable of the style sheet."""
SERIES = tuple(f"c{number}" for number in range(1, 9))
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
"""Arms differ by marker too."""
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.unicode_minus": True,
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["ink"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_FONTS = ((re.compile(r"font-family: [^;\"]*; ?"), ""), (re.compile(r"font: ([\d.]+px) [^;\"]*"), r"font-size: \1"))
"""The family of a text, in the two ways in which the library writes it; the page has its own."""
_HEAD = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[\d.]+pt"')
_ID = re.compile(r' id="([^"]*)"')
_REFERENCE = re.compile(r"(?:url\(|href=\")#([^)\"]+)")
_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass
class Drawing:
    """A figure under construction: `label` says what it shows, `name` makes its ids its own."""

    name: str
    label: str
    figure: Figure
    tips: dict[str, str] = field(default_factory=dict)

    def tip(self, artist: Any, words: str, target: str | None = None) -> None:
        """Give a mark its tooltip and its link."""
        key = f"{self.name}-{len(self.tips)}"
        artist.set_gid(key)
        self.tips[key] = words
        if target is not None:
            artist.set_url(target)


def draw(name: str, label: str, height_in: float, draw_into: Any, panels: int = 1) -> Html:
    """The SVG of what `draw_into(drawing, axes...)` draws into a new figure with its panels side by side."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**_SETTINGS, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        drawing = Drawing(name, label, figure)
        draw_into(drawing, *figure.subplots(1, panels, squeeze=False)[0])
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=_METADATA)
    return trusted(_inline(out.getvalue(), drawing))


def captioned(svg: Html, caption: Html | str, drawn: str = "") -> Html:
    """A figure with its caption under it."""
    return element("figure", element("div", svg, class_="scroll"), element("figcaption", caption), id=drawn or None)


def name_rows(axes: Axes, names: list[str]) -> None:
    """Names at the left of horizontal rows, the first at the top."""
    axes.set_yticks(range(len(names)), [shortened(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def legend_above(axes: Axes, room: int) -> None:
    """The names of an axes' marks above it, in as many columns as `room` characters hold."""
    handles, names = axes.get_legend_handles_labels()
    if names:
        columns = max(1, min(6, room // (4 + max(map(len, names)))))
        axes.legend(handles, names, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False)


def shortened(name: str, most: int = 44) -> str:
    """A name that fits beside a figure."""
    shown = printable(name)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def colour(variable: str) -> str:
    """The stand-in of a variable."""
    return COLOURS[variable]


def of_arm(place: int) -> tuple[str, str]:
    """Colour and marker of the arm at this place of the study file."""
    return COLOURS[SERIES[place % len(SERIES)]], MARKERS[place % len(MARKERS)]


def _inline(svg: str, drawing: Drawing) -> str:
    """The SVG as a part of an HTML page: no prologue, no size of its own, fonts and colours of the page."""
    body = _SIZE.sub("", _HEAD.sub("", svg), count=2)
    body = re.sub(r"<style type=\"text/css\">.*?</style>", "", body, flags=re.DOTALL)
    for pattern, ours in _FONTS:
        body = pattern.sub(ours, body)
    body = _without_idle_ids(body, set(drawing.tips)).replace(' target="_blank"', "")
    body = body.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    for variable, stand_in in COLOURS.items():
        body = body.replace(stand_in, f"var(--{variable})")
    for key, words in drawing.tips.items():
        body = _told(body, key, html.escape(printable(words), quote=True))
    label = html.escape(printable(drawing.label), quote=True)
    return body.replace("<svg ", f'<svg role="group" aria-label="{label}" ', 1).rstrip()


def _told(svg: str, key: str, words: str) -> str:
    """The mark with its tooltip, and its link with the same words for who does not see it."""
    start = f'<g id="{key}">'
    place = svg.index(start) + len(start)
    before, after = svg[:place], svg[place:]
    named = re.sub(r"^(\s*<a )", lambda found: f'{found.group()}aria-label="{words}" ', after, count=1)
    return f"{before}<title>{words}</title>{named}"


def _without_idle_ids(svg: str, kept: set[str]) -> str:
    """Only ids that something refers to stay: the library gives every figure the same names."""
    used = kept | set(_REFERENCE.findall(svg))
    return _ID.sub(lambda found: found.group() if found.group(1) in used else "", svg)
