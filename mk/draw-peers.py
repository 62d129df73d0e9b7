#!/usr/bin/env python3
"""Draws the table of `make bench-peers` as an SVG: a bar for each peer, by what was measured.

usage: draw-peers.py peers.json > peers.svg
"""
import json
import sys
from html import escape

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


def draw(lines):
    groups = {}
    for line in lines:
        groups.setdefault(line["what"], []).append((line["ns"], line["peer"]))
    height = sum(HEAD + ROW * len(rows) for rows in groups.values()) + 10
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           'font-family="sans-serif" font-size="13">')
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    top = 0
    for what, rows in groups.items():
        yield f'<text x="8" y="{top + 24}" font-weight="bold">{escape(what)}</text>'
        top += HEAD
        for ns, peer in sorted(rows):
            yield from draw_row(top, peer, ns, max(rows)[0])
            top += ROW
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
