#!/usr/bin/env python3
"""What hot calls cost in what does not vary: bench-count.py BUILD KEPT [--keep]

Runs BUILD/count under callgrind, which counts instructions by address and system calls, and finds
out by disassembly which of these instructions are locked: operations that other processors see at
once, and that cost as much as tens of others. Only the calling thread is counted, with all that it
calls, but not the program itself.

KEPT is the table of the tree. A call with over 2 % more instructions than there, or with a locked
operation or a system call more in one of five, is an error: in fewer, it is malloc() that takes its
arena's lock when the thread's cache is empty, which depends on all that was allocated before.
Counts are those of a compiler, a C library and a kind of processor: where none are kept for these,
nothing is judged.
"""
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

MORE = {'instructions': (1.02, 0.01), 'locked': (1, 0.2), 'system_calls': (1, 0.2)}
COUNTED = 60  # calls between two marks, as in tests/bench/count/count.c
KEYS = ('instructions', 'locked', 'system_calls')
LOCKED = {
    'x86_64': re.compile(r'\tlock |\txchg .*\(|\tmfence'),
    'aarch64': re.compile(r'\t(ld|st)a?x[rp]|\tcas|\tswp|\t(ld|st)(add|set|clr|eor)|\tdmb|'
                          r'\tldaxr|\tstlxr'),
}
CALLGRIND = ('valgrind', '-q', '--tool=callgrind', '--instr-atstart=no', '--dump-instr=yes',
             '--dump-line=no', '--compress-strings=no', '--compress-pos=no',
             '--collect-systime=yes', '--separate-threads=yes')
# As on a processor with nothing but what all of its kind have: memcpy() is the same everywhere.
PLAIN = 'glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load'


def locked_addresses(path, cache={}):
    """Addresses of the locked instructions of an object, as callgrind has them."""
    if path not in cache:
        cache[path] = set()
        pattern = LOCKED.get(platform.machine())
        if pattern and os.path.exists(path):
            text = subprocess.run(('objdump', '-d', '--no-show-raw-insn', path), check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            cache[path] = {int(line.split(':')[0], 16) for line in text.splitlines()
                           if pattern.search(line)}
    return cache[path]


def read_dump(path):
    """The row's name, and (object, address) -> (instructions, system calls)."""
    name, where, skip, costs = None, None, False, {}
    for line in path.read_text().splitlines():
        if line.startswith('desc: Trigger: Client Request: '):
            name = line.split(': ', 3)[3]
        elif line.startswith('ob='):
            where = line[3:]
        elif line.startswith('calls='):
            skip = True  # the next line is what the callee cost, which it has lines for
        elif line.startswith('0x'):
            numbers = line.split()
            if not skip:
                ir, calls = (int(n) for n in (numbers[1:] + ['0', '0'])[:2])
                old = costs.get((where, int(numbers[0], 16)), (0, 0))
                costs[where, int(numbers[0], 16)] = (old[0] + ir, old[1] + calls)
            skip = False
    return name, costs


def count_row(costs, program):
    """Instructions, locked operations and system calls of one call."""
    sums = Counter()
    for (where, address), (ir, calls) in costs.items():
        if where != program:
            sums['instructions'] += ir
            sums['system_calls'] += calls
            if address in locked_addresses(where):
                sums['locked'] += ir
    return {key: round(sums[key] / COUNTED, 2) for key in KEYS}


def count(build):
    """Row -> counts, in the order of the program's table."""
    program = os.path.abspath(build / 'count')
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'out'
        subprocess.run((build / 'npu-run', '--', *CALLGRIND, f'--callgrind-out-file={out}',
                        program), check=True, stdin=subprocess.DEVNULL, timeout=300,
                       env={**os.environ, 'GLIBC_TUNABLES': PLAIN})
        dumps = sorted(Path(folder).glob('out.*-01'),
                       key=lambda path: int(path.name.split('.')[1].split('-')[0]))
        rows = {}
        for name, costs in (read_dump(path) for path in dumps):
            if name:
                rows.setdefault(name, []).append(count_row(costs, program))
        return {name: min(batches, key=lambda row: row['instructions'])
                for name, batches in rows.items()}


def kind():
    """What counts depend on."""
    cc = os.environ.get('CC', 'gcc').split() + ['-dumpfullversion']
    compiler = subprocess.run(cc, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f'{platform.machine()}, gcc {compiler}, glibc {platform.libc_ver()[1]}'


def judge(name, now, kept):
    """What is wrong with this row, or None."""
    if kept is None:
        return 'is not in the table: make bench-count KEEP=1'
    longer = [f'{now[key]:g} {key.replace("_", " ")}, kept {kept[key]:g}' for key in now
              if now[key] > kept[key] * MORE[key][0] + MORE[key][1]]
    return '; '.join(longer) or None


def main():
    build, table = Path(sys.argv[1]), Path(sys.argv[2])
    tables = json.loads(table.read_text()) if table.exists() else {}
    now, machine = count(build), kind()
    if '--keep' in sys.argv:
        tables[machine] = now
        table.write_text(json.dumps(tables, indent=1) + '\n')
    kept = tables.get(machine)
    print(f'{"a call of":52}{"instructions":>13}{"locked":>8}{"system calls":>14}')
    wrong = []
    for name, row in now.items():
        instructions, locked, calls = (row[key] for key in KEYS)
        print(f'{name:52}{instructions:13.0f}{locked:8.1f}{calls:14.1f}')
        if kept is not None and judge(name, row, kept.get(name)):
            wrong.append(f'{name}: {judge(name, row, kept.get(name))}')
    if not now:
        sys.exit('bench-count: nothing was counted')
    if kept is None:
        print(f'NOT JUDGED: {table} has no counts for {machine}: make bench-count KEEP=1')
    elif wrong:
        sys.exit('\n'.join(f'bench-count: {line}' for line in wrong))


main()
