#!/usr/bin/env python3
"""What has changed between two files of `make bench`: the kept one and a new one.

A row is compared by its ratio, because a slower machine makes both sides slower. "slower" and
"faster" are said only if the spreads of the two ratios do not overlap. Where the processors were
near in one run and far in the other ("moved"), nothing is said.

usage: bench-compare.py kept.json new.json
"""
import json
import sys

NEAR_NS_MAX = 250  # tests/bench/placement.h


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def place(row):
    return "near" if row["spin_ns"] < NEAR_NS_MAX else "far"


def text(row):
    """The value, as the table has it."""
    value, unit = row["value_ns"], row["unit"]
    if unit != "ns":
        return f"{value:.0f} {unit}"
    for limit, scale, name in ((1e3, 1, "ns"), (1e6, 1e3, "us")):
        if value < limit:
            return f"{value / scale:.1f} {name}"
    return f"{value / 1e6:.2f} ms"


def verdict(kept, new):
    if place(kept) != place(new):
        return f"moved: {place(kept)} to {place(new)}"
    if new["spread_low"] > kept["spread_high"]:
        return "faster" if new["at_least"] else "slower"
    if new["spread_high"] < kept["spread_low"]:
        return "slower" if new["at_least"] else "faster"
    return ""


def compare_rows(kept, new):
    before = {row["row"]: row for row in kept}
    print(f"{'row':13} {'kept':>14} {'new':>14} {'ratio':>8} {'ratio':>8}")
    for row in new:
        old = before.pop(row["row"], None)
        if old is None:
            print(f"{row['row']:13} {'-':>14} {text(row):>14} {'-':>8} {row['ratio']:8.3f}  new")
            continue
        print(f"{row['row']:13} {text(old):>14} {text(row):>14} {old['ratio']:8.3f} "
              f"{row['ratio']:8.3f}  {verdict(old, row)}".rstrip())
    for name, old in before.items():
        print(f"{name:13} {text(old):>14} {'-':>14} {old['ratio']:8.3f} {'-':>8}  not measured")


def compare_budgets(kept, new):
    before = {(b["row"], b["place"]): b["ok"] for b in kept}
    for b in new:
        was = before.get((b["row"], b["place"]))
        if was is not None and was != b["ok"]:
            print(f"budget of row {b['row']}, {b['place']} ({b['what']}): "
                  f"{'met now' if b['ok'] else 'missed now'}, {b['value']:g} of {b['limit']:g}")


def main():
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[-1], file=sys.stderr)
        return 2
    kept, new = load(sys.argv[1]), load(sys.argv[2])
    compare_rows(kept["rows"], new["rows"])
    compare_budgets(kept["budgets"], new["budgets"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
