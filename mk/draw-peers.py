#!/usr/bin/env python3
"""Draws the table of `make bench-peers` as an SVG: a bar for each peer, by what was measured.

usage: draw-peers.py peers.json > peers.svg
"""
import sys
from html import escape

import chart

WIDTH, NAMES, BARS = 720, 190, 420
ROW, HEAD = 22, 34


def text(ns):
    return f"{ns:.1f} ns" if ns < 1000 else f"{ns / 1000:.1f} us"


def draw_row(top, peer, ns, most):
    """Bars are linear in each group; npud's have another colour."""
    colour = "#2a6f97" if peer.startswith("npud") else "#a9b4c2"
    width = max(2, BARS * ns / most)
    yield (f'<text x="{NAMES - 8}" y="{top + 15}" text-anchor="end">{escape(peer)}</text>'
           f'<rect x="{NAMES}" y="{top + 3}" width="{width:.0f}" height="16" fill="{colour}"/>'
           f'<text x="{NAMES + width + 6:.0f}" y="{top + 15}">{text(ns)}</text>')


def draw_groups(groups):
    top = 0
    for what, rows in groups.items():
        most = max(row["ns"] for row in rows)
        yield f'<text x="8" y="{top + 24}" font-weight="bold">{escape(what)}</text>'
        top += HEAD
        for row in sorted(rows, key=lambda row: (row["ns"], row["peer"])):
            yield from draw_row(top, row["peer"], row["ns"], most)
            top += ROW


def draw(lines):
    groups = chart.group_lines(lines, "what")
    height = sum(HEAD + ROW * len(rows) for rows in groups.values()) + 10
    return chart.draw_sheet(WIDTH, height, draw_groups(groups))


if __name__ == "__main__":
    sys.exit(chart.main(__doc__, draw))
