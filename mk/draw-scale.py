#!/usr/bin/env python3
"""Draws what `make bench-scale` has measured as an SVG: a chart for each row.

The bars are the rate of all processes together; below each is the 99th percentile beside the
median.

usage: draw-scale.py scale.json > scale.svg
"""
import json
import sys
from html import escape

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
    groups = {}
    for line in lines:
        groups.setdefault(line["row"], []).append(line)
    height = (HEAD + TALL + FOOT) * len(groups)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           'font-family="sans-serif" font-size="13">')
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    for i, rows in enumerate(groups.values()):
        yield from draw_chart(i * (HEAD + TALL + FOOT), rows)
    yield "</svg>"


def main():
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[-1], file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(draw(json.load(file))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
