"""What the programs that draw measurements as an SVG have in common."""
import json
import sys


def group_lines(lines, name):
    """Lines by this member of theirs, in their order."""
    groups = {}
    for line in lines:
        groups.setdefault(line[name], []).append(line)
    return groups


def draw_sheet(width, height, drawn):
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="13">')
    yield f'<rect width="{width}" height="{height}" fill="white"/>'
    yield from drawn
    yield "</svg>"


def main(usage, draw):
    """Prints what draw() makes of the lines in the file that the command line names."""
    if len(sys.argv) != 2:
        print(usage.splitlines()[-1], file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(draw(json.load(file))))
    return 0
