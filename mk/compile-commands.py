#!/usr/bin/env python3
"""Makes compile_commands.json out of what make would run (make -n -B V=1), read from the input."""
import json
import os
import shlex
import sys

entries = []
text = sys.stdin.read().replace("\\\n", " ")
for line in text.splitlines():
    if " -c " not in line or " -o " not in line:
        continue
    words = shlex.split(line)
    file = words[words.index("-c") + 1]
    if os.path.exists(file):
        output = words[words.index("-o") + 1]
        arguments = words[1:] if words[0] == "ccache" else words
        entries.append({"directory": os.getcwd(), "file": file, "output": output,
                        "arguments": arguments})
json.dump(entries, sys.stdout, indent=1)
print()
