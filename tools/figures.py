"""Figures drawn as SVG; they follow the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from tools import results

_STYLE = """
  .paper { fill: #ffffff } .ink { fill: #1f2933 } .soft { fill: #5b6775 } .signal { fill: #2563a8 }
  .noise { fill: #d0692c } .box { fill: #eef2f7; stroke: #b8c2cf } .loop { fill: none; stroke: #d0692c }
  .line { stroke: #5b6775; stroke-width: 1.2; fill: none } .thin { stroke: #b8c2cf; stroke-width: 1 }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; font-size: 13px }
  .code { font-family: ui-monospace, Menlo, "Liberation Mono", monospace; font-size: 11.5px }
  .title { font-size: 15px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #1b212b } .ink { fill: #e6ebf2 } .soft { fill: #a3b0c0 } .signal { fill: #6ba6e8 }
    .noise { fill: #ef9a5f } .box { fill: #28313f; stroke: #4a5768 } .loop { stroke: #ef9a5f }
    .line { stroke: #a3b0c0 } .thin { stroke: #4a5768 }
  }
"""


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    paper = f'<rect class="paper" width="{width}" height="{height}" rx="10"/>'
    return f'{head} role="img" aria-label="{escape(label)}">\n<style>{_STYLE}</style>\n{paper}\n{body}\n</svg>\n'


def _text(x: float, y: float, text: str, kind: str = "ink", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


# -- the picture of the README ---------------------------------------------------------------------------------------

_FEATURES = (
    ("X1, yes or no", "the only one that matters", "signal"),
    ("X2, six levels", "noise", "noise"),
    ("X3, a number", "noise", "noise"),
)


def gain_and_unbiased_gain() -> str:
    """The paper's example: means over the repetitions of the study, with 95 % intervals of the mean."""
    found = results.toy()
    panels = {"Plain gain": found["gain, 1 tree"], "Unbiased gain": found["unbiased_gain, 1 tree"]}
    parts = []
    for number, (title, values) in enumerate(panels.items()):
        left = 20 + 420 * number
        parts += [_text(left, 34, title, "ink title"), *_bars(left, values)]
    repeats = len(panels["Plain gain"])
    note = f"One tree on 1,000 rows, y = 0.1 X1 + noise. Mean of {repeats:,} repetitions and its 95 % interval."
    parts.append(_text(20, 216, note, "soft"))
    label = "Plain gain ranks two noise features above the one that matters; unbiased gain gives them zero"
    return _svg(840, 232, label, parts)


def _bars(left: float, values: np.ndarray) -> list[str]:
    """Three bars from a common zero, with whiskers and values."""
    mean = values.mean(axis=0)
    half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    zero, room = left + 208, 120.0
    scale = room / (mean + half).max()
    parts = [f'<line class="thin" x1="{zero}" x2="{zero}" y1="48" y2="190"/>']
    for j, (name, role, kind) in enumerate(_FEATURES):
        y = 54 + 48 * j
        low, high = (zero + scale * (mean[j] + sign * half[j]) for sign in (-1, 1))
        tip = zero + scale * mean[j]
        parts += [
            _text(zero - 42, y + 14, name, "ink", "end"),
            _text(zero - 42, y + 30, role, "soft", "end"),
            f'<rect class="{kind}" x="{min(zero, tip):.1f}" y="{y}" width="{abs(tip - zero):.1f}" height="34" rx="2"/>',
            f'<path class="line" d="M{low:.1f} {y + 17}H{high:.1f}M{low:.1f} {y + 12}v10M{high:.1f} {y + 12}v10"/>',
            _text(max(high, zero) + 8, y + 21, f"{1000 * mean[j]:.1f}".replace("-", "−"), "soft"),
        ]
    return parts


# -- the map of the code ---------------------------------------------------------------------------------------------

# (x, y, width, file, what it does) of each box.
_BOXES = (
    (20, 52, 168, "frames.py", "any table → columns"),
    (20, 132, 168, "binning.py", "columns → bins"),
    (236, 52, 184, "losses.py", "g and h of every row"),
    (236, 122, 184, "training/gradients.py", "g, h → one integer a row"),
    (236, 192, 184, "training/roles.py", "S1, S2, S3: who judges"),
    (456, 52, 184, "training/histogram.py", "sums by bin and role"),
    (456, 122, 184, "training/splitting.py", "S1 chooses, others judge"),
    (456, 192, 184, "training/partition.py", "rows left, rows right"),
    (236, 300, 184, "training/evidence.py", "what trees have learned"),
    (456, 300, 184, "training/booster.py", "leaf values, next tree"),
    (688, 52, 184, "ensemble/trees.py", "the model: flat arrays"),
    (688, 122, 184, "ensemble/predict.py", "a row → a prediction"),
    (688, 192, 184, "importance/gain.py", "judged by held-out rows"),
    (688, 300, 184, "files/  export/  report/", "JSON, ONNX, SHAP, HTML"),
    (20, 300, 168, "ensemble/adapters/", "foreign models → trees"),
)
_ARROWS = (
    "M104 98V130", "M188 155H212V75H234", "M328 98V120", "M328 168V190", "M420 215H438V75H454", "M548 98V120",
    "M548 168V190", "M548 238V298", "M456 323H422", "M328 298V240", "M640 323H664V75H686", "M780 98V120",
    "M780 168V190", "M104 346V370H900V215H874", "M872 75H886V323H874",
)  # fmt: skip


def a_rows_way() -> str:
    """The map of the code: a row's way from a table to a prediction."""
    parts = [
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="soft" d="M0 0L8 4L0 8z"/></marker></defs>',
        _text(20, 32, "Once", "ink title"),
        _text(236, 32, "Every tree", "ink title"),
        _text(456, 32, "Every node", "ink title"),
        _text(688, 32, "Afterwards", "ink title"),
        '<rect class="loop" x="446" y="42" width="204" height="206" rx="8" stroke-dasharray="5 4"/>',
        _text(338, 276, "next tree", "soft"),
        _text(540, 276, "training/grower.py", "noise code", "end"),
    ]
    for x, y, width, name, what in _BOXES:
        parts += [
            f'<rect class="box" x="{x}" y="{y}" width="{width}" height="46" rx="6"/>',
            _text(x + 10, y + 19, name, "ink code"),
            _text(x + 10, y + 37, what, "soft"),
        ]
    parts += [f'<path class="line" d="{path}" marker-end="url(#a)"/>' for path in _ARROWS]
    return _svg(916, 388, "A row's way: table, columns, bins, gradients, roles, histograms, splits, leaves", parts)


# -- how cost grows --------------------------------------------------------------------------------------------------

_PANEL = 240


def scaling() -> str:
    """Time to fit by rows, features and leaves, each as a multiple of the smallest; both axes are logarithmic."""
    rows = results.benchmark("scaling")["rows"]
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    parts = []
    for number, axis in enumerate(axes):
        left, bottom = 40 + (_PANEL + 40) * number, 40 + _PANEL
        curves = {row["model"]: row["growth"] for row in rows if row["axis"] == axis}
        sizes = np.array([float(size) for size in next(iter(curves.values()))])
        decades = np.log10(sizes[-1] / sizes[0])
        parts += [
            _text(left, 28, f"Time by {axis}", "ink title"),
            f'<rect class="box" x="{left}" y="40" width="{_PANEL}" height="{_PANEL}" rx="4" fill-opacity="0"/>',
            f'<path class="thin" d="M{left},{bottom} L{left + _PANEL},{bottom - _PANEL}" stroke-dasharray="4 4"/>',
            _text(left, bottom + 18, f"{sizes[0]:,.0f}", "soft"),
            _text(left + _PANEL, bottom + 18, f"{sizes[-1]:,.0f}", "soft", "end"),
        ]
        for (model, growth), kind in zip(curves.items(), ("signal", "noise"), strict=True):
            x = left + _PANEL * np.log10(sizes / sizes[0]) / decades
            y = bottom - _PANEL * np.log10(np.array(list(growth.values()))) / decades
            path = " L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
            parts.append(f'<path class="line" d="M{path}"/>')
            parts += [f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>' for a, b in zip(x, y, strict=True)]
            if number == 0:
                parts.append(_text(left + 10, 62 + 18 * (kind == "noise"), model, kind))
    note = "Dashed: in proportion. Each curve is relative to its own first point; both axes are logarithmic and alike."
    parts.append(_text(40, 322, note, "soft"))
    label = "Time grows in proportion to rows and features, and slower than leaves"
    return _svg(40 + (_PANEL + 40) * len(axes), 336, label, parts)


FIGURES: dict[str, Callable[[], str]] = {
    "docs/gain.svg": gain_and_unbiased_gain,
    "docs/way.svg": a_rows_way,
    "docs/scaling.svg": scaling,
}
