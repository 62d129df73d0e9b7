#!/usr/bin/env python3
"""Draws what `make bench-scale` has measured as an SVG: a chart for each row.

The bars are the rate of all processes together; below each is the 99th percentile beside the
median.

usage: draw-scale.py scale.json > scale.svg
"""
import sys
from html import escape
from itertools import chain

import chart

WIDTH, LEFT, BARS, TALL, HEAD, FOOT = 720, 90, 610, 110, 34, 44


def draw_bar(x, bottom, step, line, most):
    """One number of processes."""
    tall = max(1, TALL * line["rate"] / most)
    ratio = line["p99_us"] / line["median_us"] if line["median_us"] else 0
    middle = x + step / 2
    yield (f'<rect x="{x + 2:.1f}" y="{bottom - tall:.1f}" width="{step - 4:.1f}" '
           f'height="{tall:.1f}" fill="#2a6f97"/>')
    yield (f'<text x="{middle:.1f}" y="{bottom + 14}" text-anchor="middle">'
           f'{line["processes"]}</text>')
    yield (f'<text x="{middle:.1f}" y="{bottom + 28}" text-anchor="middle" fill="#777" '
           f'font-size="10">{ratio:.1f}</text>')


def draw_chart(top, lines):
    most, step = max(line["rate"] for line in lines) or 1, min(60, BARS / len(lines))
    bottom = top + HEAD + TALL
    yield f'<text x="8" y="{top + 22}" font-weight="bold">{escape(lines[0]["what"])}</text>'
    yield (f'<text x="{LEFT - 8}" y="{top + HEAD + 8}" text-anchor="end">'
           f'{most:.3g} {escape(lines[0]["unit"])}</text>')
    yield f'<text x="{LEFT - 8}" y="{bottom + 14}" text-anchor="end">processes</text>'
    yield (f'<text x="{LEFT - 8}" y="{bottom + 28}" text-anchor="end" fill="#777" '
           'font-size="10">p99 / median</text>')
    yield f'<path d="M{LEFT} {bottom}h{BARS}" stroke="#999"/>'
    for i, line in enumerate(lines):
        yield from draw_bar(LEFT + i * step, bottom, step, line, most)


def draw(lines):
    groups = chart.group_lines(lines, "row").values()
    tall = HEAD + TALL + FOOT
    charts = [draw_chart(i * tall, rows) for i, rows in enumerate(groups)]
    return chart.draw_sheet(WIDTH, tall * len(charts), chain.from_iterable(charts))


if __name__ == "__main__":
    sys.exit(chart.main(__doc__, draw))
