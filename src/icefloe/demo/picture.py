"""The result as a picture: SVG without script or outside reference, readable on light and dark pages."""

from __future__ import annotations

from xml.sax.saxutils import escape

from icefloe.demo.results import LOOKBACK_DAYS, WAYS, DemoResult, SizeResult

WIDTH, MARGIN = 880, 28
_LABELS, _BAR_HEIGHT, _ROW = 150, 18, 25
_LONGEST = WIDTH - 2 * MARGIN - _LABELS - 210
_STYLE = """
.f{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.page{fill:#ffffff;stroke:#cbd5e1}.t{font-size:18px;font-weight:600;fill:#0f172a}.h{font-size:14px;font-weight:600;fill:#0f172a}
.s{font-size:12.5px;fill:#475569}.n{font-size:12.5px;fill:#0f172a}.r{font-size:30px;font-weight:700;fill:#047857}
.lookback{fill:#f97316}.incremental{fill:#10b981}.line{stroke:#e2e8f0}
@media (prefers-color-scheme:dark){.page{fill:#0b1220;stroke:#334155}.t,.h,.n{fill:#e2e8f0}.s{fill:#94a3b8}.r{fill:#34d399}
.lookback{fill:#ea580c}.incremental{fill:#059669}.line{stroke:#1e293b}}
""".replace("\n", "")


def to_svg(result: DemoResult) -> str:
    """One ``<svg>`` element with the seconds and rows that the command prints."""
    parts = [
        _text("t", MARGIN, 40, "One day's load through a pipeline of two stages, with 3 % late events"),
        _text("s", MARGIN, 62, "The same SELECTs on one Spark server. Bars are seconds; shorter is better."),
    ]
    top = 84.0
    longest = max(size.mean(way).seconds for size in result.sizes for way in WAYS)
    for size in result.sizes:
        top = _size(parts, top, size, longest)
    rows = sum(proof.incremental[0] for size in result.sizes for proof in size.proofs)
    verdict = (
        f"Both ways hold the same {rows:,} rows, by count and the hashes of all columns."
        if result.equal
        else "THE TABLES OF THE TWO WAYS ARE NOT EQUAL."
    )
    parts.append(_text("n", MARGIN, top + 18, verdict))
    parts.append(_text("s", MARGIN, top + 38, "Made by: icefloe demo --picture demo.svg"))
    height = top + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'role="img" class="f"><title>icefloe demo: a lookback of {LOOKBACK_DAYS} days against incremental processing</title>'
        f"<style>{_STYLE}</style>"
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="10"/>{"".join(parts)}</svg>\n'
    )


def _size(parts: list[str], top: float, size: SizeResult, longest: float) -> float:
    """One block; returns where the next begins."""
    parts.append(f'<line class="line" x1="{MARGIN}" y1="{top:.0f}" x2="{WIDTH - MARGIN}" y2="{top:.0f}"/>')
    parts.append(_text("h", MARGIN, top + 26, f"{size.events_per_day:,} events a day"))
    parts.append(_text("s", MARGIN + 210, top + 26, f"{size.bytes_per_event:.0f} bytes each on disk"))
    at = top + 40
    for way in WAYS:
        cost = size.mean(way)
        width = max(cost.seconds / longest * _LONGEST, 2)
        parts.append(_text("n", MARGIN, at + 14, way))
        parts.append(
            f'<rect class="{way}" x="{_LABELS}" y="{at:.0f}" width="{width:.1f}" height="{_BAR_HEIGHT}" rx="3"/>'
        )
        parts.append(_text("n", _LABELS + width + 8, at + 14, f"{cost.seconds:.1f} s"))
        at += _ROW
    parts.append(_text("r", WIDTH - MARGIN, top + 74, f"{size.ratio('seconds'):.2f}", anchor="end"))
    parts.append(_text("s", WIDTH - MARGIN, top + 26, "of the lookback's seconds", anchor="end"))
    lookback, incremental = size.mean("lookback"), size.mean("incremental")
    read = f"read: {incremental.rows:,} rows in place of {lookback.rows:,} ({size.ratio('rows'):.2f})"
    parts.append(_text("s", MARGIN, at + 14, read))
    return at + 30


def _text(style: str, x: float, y: float, words: str, *, anchor: str = "start") -> str:
    return f'<text class="{style}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'
