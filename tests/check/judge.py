"""
What a pair says that npu-check must find in it, and whether a report says so. README.md has the
words; run.py runs the pairs.
"""
import re
from dataclasses import dataclass, field

KINDS = ("race", "uninitialised", "use-after-free", "leak", "unfinished", "empty-wait", "ignored")

COMMENT = re.compile(r"(?:/\*|//|#) check: (.*?)(?: \*/)?$")
CALL = re.compile(r"\bacl\w*(?:\.\w+)*(?=\()")
MACRO = re.compile(r"\b(NEW_\w+)\(")
NEW = re.compile(r"\bNEW\([^,]+, (\w+)")
HEADER = re.compile(r"npud check: ([a-z-]+): (.*)")
SUMMARY = re.compile(r"npud check: (\d+|no) findings?\b(.*)")
COUNT = re.compile(rf"\b({'|'.join(KINDS)}) (\d+)\b")
ENTRY = re.compile(r"  ([a-z]+ (?:by|task)|[a-z]+(?: [a-z]+)?(?=  )|[a-z]+) +(\S.*)")
CONTINUED = re.compile(r" {6,}(\S.*)")
PLACE = re.compile(r"([\w.+-]+\.(?:cpp|c|h|py)):(\d+)")


@dataclass
class Expectation:
    """One comment: what the finding of a kind must have, and the line that it must name."""
    kind: str
    what: str  # "label", "names", "allocated", "missing" or "text"
    text: str  # the label, as a regular expression, or what the text must contain
    function: str
    line: int


@dataclass
class Pair:
    """What stands in the source of a pair."""
    file: str
    kinds: list = field(default_factory=list)
    options: list = field(default_factory=list)
    exits: int = 0
    expectations: list = field(default_factory=list)


@dataclass
class Finding:
    """As a report has it: its kind, and labels with their texts, each joined to one line."""
    kind: str
    header: str
    entries: list = field(default_factory=list)

    def text(self):
        return "\n".join([self.header, *(f"{label} {text}" for label, text in self.entries)])


def read_macros(header):
    """What the macros NEW_... of check.h call."""
    defined = r"#define (NEW_\w+)\([^)]*\)\s+NEW\([^,]+, (\w+)"
    return dict(re.findall(defined, header))


def find_function(code, macros):
    """The call of the library in a line of code; "" if there is none."""
    call, macro, new = CALL.search(code), MACRO.search(code), NEW.search(code)
    if call:
        return call[0]
    if new:
        return new[1]
    return macros.get(macro[1], "") if macro else ""


def add_expectation(pair, text, code, line, macros):
    kind = pair.kinds[0] if pair.kinds else None
    for prefix in KINDS:
        if text.startswith(prefix + ": "):
            kind, text = prefix, text[len(prefix) + 2:]
    function = ""
    if text == "missing names":
        what = "names"
    elif text == "memory allocated":
        what = "allocated"
    elif text.split()[0] in ("missing", "text"):
        what, _, text = text.partition(" ")
    else:
        what, function = "label", find_function(code, macros)
        if not function:
            raise ValueError(f"{pair.file}:{line}: no call of the library in the line")
    pair.expectations.append(Expectation(kind, what, text, function, line))


def read_pair(file, source, macros):
    """A comment beside code is about its line; one that has a line of its own, about the next."""
    pair, waiting = Pair(file), []
    for number, line in enumerate(source.splitlines(), 1):
        comment = COMMENT.search(line)
        code = line[:comment.start()] if comment else line
        if code.strip():
            for text in waiting + ([comment[1]] if comment else []):
                add_expectation(pair, text, code, number, macros)
            waiting = []
        elif comment and comment[1] in KINDS:
            pair.kinds.append(comment[1])
        elif comment and comment[1].startswith("options "):
            pair.options = comment[1].split()[1:]
        elif comment and comment[1].startswith("exits "):
            pair.exits = int(comment[1].split()[1])
        elif comment:
            waiting.append(comment[1])
    if not pair.kinds or waiting:
        raise ValueError(f"{file}: no kind of finding, or a comment with no line behind it")
    return pair


def read_report(text):
    """The findings of a report, and what its last line counts: None, if there is no such line."""
    findings, counted, current = [], None, None
    for line in text.splitlines():
        header, summary, entry = HEADER.fullmatch(line), SUMMARY.match(line), ENTRY.fullmatch(line)
        more = CONTINUED.fullmatch(line)
        if header and header[1] in KINDS:
            current = Finding(header[1], header[2])
            findings.append(current)
        elif summary:
            counted, current = dict(COUNT.findall(summary[2])), None
            counted["all"] = summary[1].replace("no", "0")
        elif current and more and current.entries:
            current.entries[-1] = (current.entries[-1][0], current.entries[-1][1] + " " + more[1])
        elif current and entry:
            current.entries.append((entry[1], entry[2]))
        else:
            current = None
    return findings, counted


def plain_name(function):
    """acl.rt.memset_async and aclrtMemsetAsync are one function."""
    return re.sub(r"[._]", "", function).lower()


def take_label(expected, entries, file):
    """Takes the entry that is meant out of the list; says what is wrong if there is none."""
    of_label = [e for e in entries if re.fullmatch(expected.text, e[0])]
    for entry in of_label:
        place, function = PLACE.search(entry[1]), re.match(r"[\w.]+", entry[1])
        if place and place.groups() == (file, str(expected.line)) and function and \
                plain_name(function[0]) == plain_name(expected.function):
            entries.remove(entry)
            return None
    return f'no "{expected.text}" with {expected.function} at {file}:{expected.line}'


def judge_allocation(expected, finding, file):
    place = f"{file}:{expected.line}"
    for label, text in finding.entries:
        allocated = re.search(r"allocated\b[^:]*\bat " + re.escape(place) + r"\b", text)
        if label == "memory" and allocated or label == "allocated by" and place in text:
            return None
    return f"the memory is not said to be allocated at {place}"


def judge_expectation(expected, finding, entries, file):
    missing = " ".join(text for label, text in finding.entries if label == "missing")
    if expected.what == "label":
        return take_label(expected, entries, file)
    if expected.what == "allocated":
        return judge_allocation(expected, finding, file)
    if expected.what == "text":
        return None if re.search(rf"\b{re.escape(expected.text)}\b", finding.text()) else \
            f'"{expected.text}" is not in the finding'
    if expected.what == "names":
        return None if (file, str(expected.line)) in PLACE.findall(missing) else \
            f"{file}:{expected.line} is not named by what is missing"
    if not missing:
        return "nothing is said to be missing"
    return None if expected.text in missing else f'what is missing is not "{expected.text}"'


def judge_counts(findings, counted):
    if counted is None:
        return ["no last line with the number of findings"] if findings else []
    wrong = []
    if int(counted["all"]) != len(findings):
        wrong.append(f"the last line counts {counted['all']} findings, and there are "
                     f"{len(findings)}")
    for kind in {f.kind for f in findings}:
        n = sum(f.kind == kind for f in findings)
        if counted.get(kind) != str(n):
            wrong.append(f"the last line counts {counted.get(kind, 0)} of {kind}, not {n}")
    return wrong


def judge_right(report):
    """What is wrong with a report of a program that is right: a list of sentences."""
    findings, counted = read_report(report)
    return [f"{f.kind} was told of the right program" for f in findings] + \
        judge_counts(findings, counted)


def judge_wrong(pair, report):
    """The same of the program that is wrong: exactly one finding of each of its kinds."""
    findings, counted = read_report(report)
    wrong = judge_counts(findings, counted)
    for finding in findings:
        if finding.kind not in pair.kinds:
            wrong.append(f"{finding.kind} was told, too")
    for kind in pair.kinds:
        told = [f for f in findings if f.kind == kind]
        if len(told) != 1:
            wrong.append(f"{kind} was told {len(told)} times, and not once")
            continue
        entries = list(told[0].entries)
        wrong += filter(None, (judge_expectation(e, told[0], entries, pair.file)
                               for e in pair.expectations if e.kind == kind))
    return wrong
