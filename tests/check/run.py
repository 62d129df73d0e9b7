"""
Builds the pairs of this folder, runs both variants of each, and judges what npu-run --check says.
usage: run.py [--plain] BUILD [NAME...] [-- OPTION...]
--plain: without --check: the programs must run. The OPTIONs are npu-run's.
"""
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import judge

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
FLAGS = ["-Wall", "-Wextra", "-Werror", f"-I{TOP}", f"-I{TOP}/include"]
GUARD = 300  # seconds: against hanging only
FOUND = 86  # npu-run's status if there are findings, and the program's own was 0
PARALLEL = 2
PYTHON = "/usr/bin/python3"


def list_sources(names):
    """All files that begin with what is expected of them, or those with these names."""
    files = sorted(f for end in ("*.c", "*.cpp", "*.py") for f in HERE.glob(end)
                   if judge.COMMENT.match(f.read_text().split("\n", 1)[0]))
    unknown = set(names) - {f.stem for f in files}
    if unknown:
        sys.exit(f"no such pair: {' '.join(sorted(unknown))}")
    return [f for f in files if not names or f.stem in names]


class Runner:
    """The build that is tested, and where the programs are built."""

    def __init__(self, build, work, options, plain):
        self.build, self.work, self.options, self.plain = build, work, options, plain
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(build), TMPDIR=str(work),
                                PYTHONPATH=str(build / "python3/dist-packages"),
                                PYTHONDONTWRITEBYTECODE="1")

    def make_command(self, source, wrong):
        """The command that runs a variant, built if it must be."""
        if source.suffix == ".py":
            return [PYTHON, str(source), str(wrong)]
        program = self.work / f"{source.stem}-{wrong}"
        compiler, standard = (("CC", "cc"), "gnu11") if source.suffix == ".c" else \
            (("CXX", "c++"), "gnu++17")
        subprocess.run([*shlex.split(os.environ.get(*compiler)), f"-std={standard}", "-g", *FLAGS,
                        f"-DWRONG={wrong}", "-o", str(program), str(source), f"-L{self.build}",
                        "-laclclient", "-pthread"],
                       check=True, stderr=subprocess.PIPE, text=True)
        return [str(program)]

    def run_program(self, command, options):
        """Status and standard error of a program under npu-run."""
        done = subprocess.run([str(self.build / "npu-run"), *self.options, *options, "--",
                               *command], env=self.environment, timeout=GUARD, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, errors="replace", check=False)
        return done.returncode, done.stderr

    def judge_variant(self, pair, command, wrong, options):
        """Runs a program; the sentences about what is not as expected, and the report."""
        told = wrong and (bool(options) or not pair.options)
        checking = [] if self.plain else ["--check", *options]
        status, report = self.run_program(command, checking)
        wanted = pair.exits or (FOUND if told and not self.plain else 0)
        faults = [] if status == wanted else [f"status {status}, and not {wanted}"]
        if not self.plain:
            faults += judge.judge_wrong(pair, report) if told else judge.judge_right(report)
        return faults, report

    def run_pair(self, source, macros):
        """The lines to print about a pair, and whether all is well."""
        lines, well = [], True
        try:
            pair = judge.read_pair(source.name, source.read_text(), macros)
            runs = [("right", 0, pair.options), ("wrong", 1, pair.options)]
            if pair.options and not self.plain:
                runs.append(("wrong, silent without the option", 1, []))
            for name, wrong, options in runs:
                faults, report = self.judge_variant(pair, self.make_command(source, wrong), wrong,
                                                    options)
                lines.append(f"{'not ' if faults else ''}ok {source.name} ({name})")
                if faults:
                    well = False
                    lines += [f"    {line}" for line in faults + report.splitlines()]
        except subprocess.CalledProcessError as e:
            return [f"not ok {source.name} is built", *e.stderr.splitlines()], False
        except (ValueError, subprocess.TimeoutExpired) as e:
            return [*lines, f"not ok {source.name}: {e}"], False
        return lines, well


def main(words):
    plain = words[:1] == ["--plain"]
    words = words[plain:]
    at = words.index("--") if "--" in words else len(words)
    macros = judge.read_macros((HERE / "check.h").read_text())
    all_well = True
    with tempfile.TemporaryDirectory() as work, \
         concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        runner = Runner(pathlib.Path(words[0]).resolve(), pathlib.Path(work), words[at + 1:], plain)
        for lines, well in pool.map(lambda s: runner.run_pair(s, macros),
                                    list_sources(words[1:at])):
            print("\n".join(lines), flush=True)
            all_well &= well
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
