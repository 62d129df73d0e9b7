"""Turns what C++ does not have in the source of a kernel into C++: launches `k<<<...>>>(...)`,
`__global__`, `__gm__`, and asm("trap").

The driver `bisheng` (driver.py) calls this between the preprocessor and the compiler: so macros and
headers may have launches and kernels, and the line markers of the preprocessor tell which line of
which file a text is from. Nothing here removes or adds a line, so messages of the compiler and
lines of a debugger are those of the user's files.

A launch becomes `::npud::launch("k", k, blocks, l2, stream)(arguments)`: an ordinary call of what
launch() returns, whose parameters are those of the kernel. If the kernel is a template and the
launch leaves out arguments of it, a declaration behind the template has them deduced from those of
the call. After each kernel that is a function and no template stands an object that registers it
(npud_kernel.h), and so behind each variable with __gm__.
"""

import bisect
import re

TOKEN = re.compile(
    r"""
      (?P<directive> ^[^\S\n]*\#(?:[^\n\\]|\\.)*)
    | (?P<blank>     \n|[^\S\n]+|//(?:[^\n\\]|\\.)*|/\*.*?\*/)
    | (?P<string>    (?:u8|[uUL])?R"(?P<end>[^\s()\\"]{0,16})\(.*?\)(?P=end)"
                   | (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
    | (?P<char>      (?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
    | (?P<number>    \.?[0-9](?:[eEpP][+-]|'?[\w.])*)
    | (?P<word>      [^\W\d]\w*)
    | (?P<op>        ->|::|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
MARKER = re.compile(
    r'^[ \t]*#(?:line)?[ \t]+(\d+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)"([ \d]*))?[ \t]*$', re.M
)
# Without one of these there is nothing to do.
NEEDED = re.compile(
    r"<[ \t]*<[ \t]*<|__global__|__npud_gm__|\b(?:__)?asm(?:__)?\b[^;]{0,40}\"trap\""
)
# What __gm__ is to the preprocessor (npud_kernel.h).
GM = "__npud_gm__"
GM_WORD = re.compile(rf"\b{GM}\b")

CLOSING = {"(": ")", "[": "]", "{": "}"}
KINDS = {"__cube__": "CUBE", "__vector__": "VECTOR", "__mix__": "MIX"}
# What KERNEL_TASK_TYPE_DEFAULT() of npud_kernel.h leaves in the body of a kernel.
TASK_TYPE = re.compile(r"task_type_KERNEL_TYPE_(AIC|AIV|MIX)")
TASK_KINDS = {"AIC": "CUBE", "AIV": "VECTOR", "MIX": "MIX"}
# No names of kernels, where they stand before <<< or before a parenthesis.
KEYWORDS = frozenset(
    "return co_return co_yield co_await throw else do case new delete sizeof if while for switch "
    "goto typename template not and or xor decltype alignas noexcept catch".split()
)
ATTRIBUTES = frozenset("__attribute__ __attribute __declspec alignas decltype __mix__".split())
CLASSES = frozenset("struct class union enum".split())
# A declaration with one of these defines no variable of a file.
NO_VARIABLE = frozenset("template typedef using friend operator thread_local".split())
SCALARS = frozenset(
    "int unsigned signed short long char float double bool size_t int8_t int16_t int32_t int64_t "
    "uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t".split()
)


class TranslateError(Exception):
    """What is not understood, with its place and what to do."""


class Token:
    """A word, number, string, or operator; `start` and `end` are offsets in the text."""

    __slots__ = ("kind", "text", "start", "end")

    def __init__(self, kind, text, start, end):
        self.kind, self.text, self.start, self.end = kind, text, start, end


class Kernel:
    """A function with __global__: what its declaration says."""

    def __init__(self):
        self.name = self.qualified = ""
        self.kind = "AICORE"
        self.plain = False  # extern "C"
        self.template = False
        self.needed = 0  # arguments of the template that a launch gives or has deduced
        self.deducer = ""  # what deduces them; "": nothing
        self.end = 0  # offset behind the body or the declaration
        self.top = False  # in no namespace
        self.member = False  # in a class or function
        self.parameters = []  # lists of tokens


def find_user_parts(text):
    """Yields (start, end) of all that is from no system header. What a macro of one has left in a
    file of the user is the user's."""
    start, system, user = 0, False, None
    for marker in MARKER.finditer(text):
        flags = (marker.group(3) or "").split()
        is_system = "3" in flags and not (marker.group(2) == user and not {"1", "2"} & set(flags))
        user = user if is_system else marker.group(2)
        if is_system != system:
            if is_system:
                yield start, marker.start()
            start, system = marker.start(), is_system
    if not system:
        yield start, len(text)


def read_tokens(text):
    tokens = []
    for start, end in find_user_parts(text):
        for match in TOKEN.finditer(text, start, end):
            if match.lastgroup == "end" or match.lastgroup not in ("directive", "blank"):
                kind = "string" if match.lastgroup == "end" else match.lastgroup
                tokens.append(Token(kind, match.group(), match.start(), match.end()))
    return tokens


class Translation:
    """One source: tokens, the scopes around the token that is looked at, and edits."""

    def __init__(self, text, name, launch_functions):
        self.text, self.name, self.launch_functions = text, name, launch_functions
        self.tokens = read_tokens(text)
        self.edits = []  # (start, end, text)
        self.launches = []  # (start, end of the kernel's name, end of <<<, start and end of >>>)
        self.scopes = []  # (kind, name or Kernel)
        self.kernels = []
        self.variables = []
        self.looked_at = -1  # begin of a declaration with __gm__
        self.markers = list(MARKER.finditer(text))
        self.marker_starts = [m.start() for m in self.markers]

    # --- places ---

    def place(self, token):
        index = bisect.bisect_right(self.marker_starts, token.start) - 1
        line, start, name = 1, 0, self.name
        if index >= 0:
            marker = self.markers[index]
            line, start, name = int(marker.group(1)), marker.end() + 1, marker.group(2) or name
        return f"{name}:{line + self.text.count(chr(10), start, token.start)}"

    def fail(self, token, words):
        raise TranslateError(f"{self.place(token)}: error: {words}")

    def at(self, index):
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def is_word(self, index):
        return 0 <= index < len(self.tokens) and self.tokens[index].kind == "word"

    def is_name(self, index):
        return self.is_word(index) and self.at(index) not in KEYWORDS

    # --- pairs ---

    def close_of(self, index):
        """The index of what closes the bracket at index; the end if nothing does."""
        depth = 0
        for i in range(index, len(self.tokens)):
            text = self.tokens[i].text
            if text in CLOSING:
                depth += 1
            elif text in (")", "]", "}"):
                depth -= 1
                if depth == 0:
                    return i
        return len(self.tokens)

    def open_of(self, index, opening, closing):
        """The index of what opens the bracket that closes at index; -1 if nothing does."""
        pairs, depth, others = {")": "(", "]": "["}, 0, []
        for i in range(index, -1, -1):
            text = self.tokens[i].text
            if not others and text in (opening, closing):
                depth += 1 if text == closing else -1
                if depth == 0:
                    return i
            elif text in pairs:
                others.append(pairs[text])
            elif text in ("(", "["):
                if not others or others.pop() != text:
                    return -1
            elif text in (";", "{", "}"):
                return -1
        return -1

    # --- launches ---

    def is_chevron(self, index, text):
        """Three of text at index; the preprocessor may have put blanks between them."""
        if not self.at(index) == self.at(index + 1) == self.at(index + 2) == text:
            return False
        whole = self.text[self.tokens[index].start : self.tokens[index + 2].end]
        return not whole.strip(text + " \t")

    def start_of_name(self, index):
        """The first token of the kernel's name that ends at index; -1 if there is no name."""
        while index >= 0:
            text = self.at(index)
            if text == ">":
                index = self.open_of(index, "<", ">") - 1
                if not self.is_word(index):
                    return -1
            elif text in (")", "]"):
                index = self.open_of(index, "(" if text == ")" else "[", text)
                before = self.at(index - 1)
                if before in (">", ")", "]") or self.is_name(index - 1):
                    index -= 1
                    continue
                return index
            if not self.is_name(index) or self.at(index) == "operator":
                return -1
            if self.at(index - 1) == "template":
                index -= 1
            if self.at(index - 1) not in ("::", ".", "->"):
                return index
            scope = self.at(index - 2)
            if self.at(index - 1) == "::" and scope != ">" and not self.is_name(index - 2):
                return index - 1
            index -= 2
        return -1

    def find_close(self, first):
        """The index of the >>> of a launch whose values begin at first."""
        commas, depth, alone, i = 0, 0, False, first
        while i < len(self.tokens):
            text = self.at(i)
            if depth == 0 and self.is_chevron(i, ">"):
                if self.at(i + 3) == "(" and commas >= 2:
                    # More of the kind: these are the ends of templates in a value.
                    if not self.is_chevron(self.close_of(i + 3) + 1, ">"):
                        return i
                alone = alone or self.at(i + 3) != "("
            if text in CLOSING:
                depth += 1
            elif text in (")", "]", "}"):
                depth -= 1
                if depth < 0:
                    break
            elif text == "," and depth == 0:
                commas += 1
            elif text == ";" and depth == 0:
                break
            i += 1
        opening = self.tokens[first - 3]
        if alone and commas >= 2:
            self.fail(opening, "no arguments follow this launch: write kernel<<<blocks, l2, "
                               "stream>>>(arguments), with () if there are none")
        self.fail(opening, "this is no launch that npud understands: write kernel<<<blocks, l2, "
                           "stream>>>(arguments), with all three values (nullptr as l2)")

    def note_launch(self, index):
        """<<< at index. Returns the index to go on with."""
        if self.at(index - 1) == "operator":
            return index + 3
        first = self.start_of_name(index - 1)
        if first < 0:
            self.fail(self.tokens[index], "the name of a kernel must stand before <<<: write "
                                          "kernel<<<blocks, l2, stream>>>(arguments)")
        close = self.find_close(index + 3)
        self.launches.append((first, index, close))
        return index + 3

    def write_launches(self):
        kinds = {k.name: k.kind for k in self.kernels}
        for first, index, close in self.launches:
            last = self.last_name(first, index)
            kind = kinds.get(last, "AICORE")
            kind = "" if kind == "AICORE" else f"<ACL_KERNEL_TYPE_{kind}>"
            begin, shown = self.tokens[first].start, quote(self.shown_name(first, index))
            name, comma = self.find_deduced(index, last), ", "
            if name >= 0:
                comma = "(npud_values...))::value; }, "
                text = f"({shown}, [](auto &&...npud_values) {{ return decltype("
                self.edits.append((begin, begin, f"::npud::launch_deduced{kind}{text}"))
                place = self.tokens[name].start
                self.edits.append((place, place, "npud_deduce_"))
            else:
                self.edits.append((begin, begin, f"::npud::launch{kind}({shown}, "))
            self.edits.append((self.tokens[index].start, self.tokens[index + 2].end, comma))
            self.edits.append((self.tokens[close].start, self.tokens[close + 2].end, ")"))

    def find_deduced(self, index, last):
        """The index of the name of a kernel, `last`, whose launch has <<< at index, if it leaves
        out arguments of a template; then what deduces them is written. -1: it does not."""
        templates = [k for k in self.kernels if k.template and k.name == last]
        given, name = None, index - 1
        if self.at(name) == ">":
            opening = self.open_of(name, "<", ">")
            given, name = len(self.read_parameters(opening, name)), opening - 1
        if not templates or self.at(name) != last:
            return -1
        if given is not None and given >= min(k.needed for k in templates):
            return -1
        deduced = [k for k in templates if k.deducer and k.end]
        if not deduced and given is None:
            self.fail(self.tokens[index], "npud deduces no arguments of a template that is in a "
                                          "class, or has a parameter without a name: write those "
                                          f"of the kernel {last}, {last}<...><<<")
        for kernel in deduced:
            if (kernel.end, kernel.end, kernel.deducer) not in self.edits:
                self.edits.append((kernel.end, kernel.end, kernel.deducer))
        return name if deduced else -1

    def shown_name(self, first, index):
        """The kernel as the source has it, without blanks and outer parentheses."""
        if self.at(first) == "(" and self.close_of(first) == index - 1:
            return self.shown_name(first + 1, index - 1)
        name = " ".join(t.text for t in self.tokens[first:index] if t.text != GM)
        return re.sub(r" ?(::|\.|->|[<>()\[\]&*]) ?", r"\1", name).replace(" ,", ",")

    def last_name(self, first, index):
        """The name in the tokens of a kernel, without the arguments of a template."""
        depth = 0
        for i in range(index - 1, first - 1, -1):
            text = self.at(i)
            depth += {">": 1, "<": -1}.get(text, 0)
            if depth == 0 and self.is_word(i):
                return text
        return ""

    # --- kernels ---

    def blank(self, first, last):
        start, end = self.tokens[first].start, self.tokens[last].end
        self.edits.append((start, end, re.sub(r"[^\n]", " ", self.text[start:end])))

    def blank_kind(self, index):
        """What says on which cores a kernel runs, at index."""
        last = index
        if self.at(index) == "__mix__" and self.at(index + 1) == "(":
            last = self.close_of(index + 1)
            if last == len(self.tokens):
                self.fail(self.tokens[index], "no parenthesis closes this __mix__(")
        self.blank(index, last)

    def read_parameters(self, opening, closing):
        parts, part, depth = [], [], 0
        for i in range(opening + 1, closing):
            text = self.at(i)
            depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
            if text == "," and depth == 0:
                parts.append(part)
                part = []
            else:
                part.append(self.tokens[i])
        if part or parts:
            parts.append(part)
        return [] if [t.text for p in parts for t in p] == ["void"] else parts

    def text_of(self, first, last):
        """The tokens in one line."""
        text = ""
        for token, after in zip(self.tokens[first : last + 1], self.tokens[first + 1 : last + 2]):
            word = "" if token.text == GM or token.text in KINDS else token.text
            text += word + " " * (after.start > token.end)
        return text.rstrip()

    def read_template(self, kernel, start, opening, closing):
        """Of a kernel whose declaration begins with a template at start, and whose parameters are
        from opening to closing: how the template's arguments are deduced."""
        if self.at(start) != "template" or self.at(start + 1) != "<":
            return
        end, names = self.skip_angles(start + 1) - 1, []
        for part in self.read_parameters(start + 1, end):
            words = [t.text for t in part]
            head = words[: words.index("=")] if "=" in words else words
            kernel.needed += "=" not in words and "." not in words
            if len(head) < 2 or not re.match(r"[^\W\d]", head[-1]) or head[-2] == "::":
                return  # it has no name
            names.append(head[-1] + "..." * ("." in head))
        if not names or kernel.member:
            return  # a specialisation
        one = f"&{kernel.name}<{', '.join(names)}>"
        kernel.deducer = (
            f" {self.text_of(start, end)} ::npud::Deduced<decltype({one}), {one}> "
            f"npud_deduce_{kernel.name}{self.text_of(opening, closing)};"
        )

    def find_parameters(self, index):
        """The parenthesis of the parameters of the function whose declaration has index."""
        i = index + 1
        while i < len(self.tokens) and self.at(i) not in (";", "{", "}", "="):
            if self.at(i) == "[" and self.at(i + 1) == "[":
                i = self.close_of(i)
            elif self.at(i) == "(":
                before = self.at(i - 1)
                if before in ATTRIBUTES:
                    i = self.close_of(i)
                elif self.is_name(i - 1) or before == ">":
                    return i
                else:
                    break
            i += 1
        return self.fail(self.tokens[index], "no function follows this __global__: write "
                                             "__global__ __aicore__ void name(parameters)")

    def read_kernel(self, start, index):
        """__global__ at index of a declaration that begins at start. Returns where its parameters
        end, and the kernel."""
        kernel = Kernel()
        opening = self.find_parameters(index)
        closing = self.close_of(opening)
        name = opening - 1
        if self.at(name) == ">":
            name = self.open_of(name, "<", ">") - 1
            if not self.is_word(name):
                self.fail(self.tokens[index], "the kernel has no name: write "
                                              "__global__ __aicore__ void name(parameters)")
        words = [t.text for t in self.tokens[start:opening]]
        spaces = [s[1] for s in self.scopes if s[0] == "namespace" and s[1]]
        kernel.name = self.at(name)
        kernel.qualified = "::".join(spaces + [kernel.name])
        kernel.template = "template" in words
        kernel.plain = any(s[0] == "linkage" for s in self.scopes) or (
            "extern" in words and '"C"' in words
        )
        kernel.top = all(s[0] == "linkage" for s in self.scopes)
        kernel.member = any(s[0] not in ("linkage", "namespace") for s in self.scopes)
        kernel.kind = next((KINDS[w] for w in words if w in KINDS), "AICORE")
        kernel.parameters = self.read_parameters(opening, closing)
        self.read_template(kernel, start, opening, closing)
        for i in range(index + 1, opening):
            if self.at(i) in KINDS:
                self.blank_kind(i)
        return closing, kernel

    def note_kernel(self, start, index):
        """Returns the index to go on with: where the body or the end of the declaration is."""
        closing, kernel = self.read_kernel(start, index)
        i = closing + 1
        while i < len(self.tokens) and self.at(i) not in ("{", ";", "}"):
            i += 1
        defined = self.at(i) == "{"
        if defined and not kernel.template and not kernel.member:
            if any(k.qualified == kernel.qualified and k.defined for k in self.kernels):
                self.fail(self.tokens[index], f"two kernels are called {kernel.qualified}: "
                                              "give them different names")
        kernel.defined = defined and not kernel.template
        self.kernels.append(kernel)
        if defined:
            self.scopes.append(("kernel", kernel))
            i += 1
        elif self.at(i) == ";":
            kernel.end = self.tokens[i].end
        return i

    def write_kernel(self, kernel, closing):
        """After the body of a kernel, whose last brace is closing."""
        kernel.end = closing.end
        if kernel.template or kernel.member:
            return
        number = len([e for e in self.edits if "npud_record" in e[2]])
        plain = "true" if kernel.plain else "false"
        text = (
            f" static const ::npud::Record<&{kernel.name}> npud_record_{number}"
            f"({quote(kernel.qualified)}, ACL_KERNEL_TYPE_{kernel.kind}, {plain});"
        )
        if self.launch_functions and kernel.plain and kernel.top:
            text += " " + launch_function(kernel)
        self.edits.append((closing.end, closing.end, text))

    # --- variables ---

    def skip_angles(self, index):
        """Behind the arguments of a template that begin at index."""
        depth = 0
        while index < len(self.tokens) and self.at(index) not in (";", "{", "}"):
            depth += (self.at(index) == "<") - (self.at(index) == ">")
            index = index + 1 if self.at(index) not in CLOSING else self.close_of(index) + 1
            if depth == 0:
                break
        return index

    def skip_initializer(self, index):
        """At the , or ; behind the value that follows the = at index."""
        angles = False
        while index < len(self.tokens) and self.at(index) not in (",", ";", "}"):
            angles = angles or self.at(index) == "<"
            index = index + 1 if self.at(index) not in CLOSING else self.close_of(index) + 1
        if angles and self.at(index) == ",":
            self.fail(self.tokens[index], "this comma is of a template, or before another "
                                          "variable: write one variable with __gm__ in each "
                                          "declaration")
        return index

    def read_declarator(self, i):
        """From i on: (name, whether it has a value, index of the , or ; behind it). The name is a
        list of tokens; None: this is no variable."""
        name = []
        while i < len(self.tokens):
            text = self.at(i)
            if text in (",", ";"):
                return name, False, i
            if text in NO_VARIABLE or text in ("}", ":"):
                return None
            if text in ATTRIBUTES and self.at(i + 1) == "(":
                i = self.close_of(i + 1)
            elif text == "[":
                i = self.close_of(i)
            elif text == "<":
                i = self.skip_angles(i) - 1
            elif text == "=":
                return name, True, self.skip_initializer(i)
            elif text == "{" and name:
                return name, True, self.close_of(i) + 1
            elif text == "(":
                closing = self.close_of(i)
                if self.at(closing + 1) not in ("(", "["):
                    return None  # a function
                inside = [j for j in range(i, closing) if self.is_name(j)]
                name = [self.at(inside[-1])] if inside else []
                i = closing if self.at(closing + 1) == "[" else self.close_of(closing + 1)
            elif self.is_name(i) and text != GM:
                name = name + [text] if name[-1:] == ["::"] else [text]
            elif text == "::" and name:
                name = name + [text]
            i += 1
        return None

    def skip_class(self, start):
        """Behind the braces of a type that the declaration defines, if it does."""
        i = start
        while i < len(self.tokens) and self.at(i) not in (";", "=", "(", "{", "}"):
            i += 1
        if self.at(i) == "{" and (self.at(i - 1) in CLASSES or self.at(i - 2) in CLASSES):
            return self.close_of(i) + 1
        return start

    def note_variables(self, start, index):
        """__gm__ at index, outside of functions, of a declaration that begins at start."""
        self.looked_at = start
        words = [t.text for t in self.tokens[start:index]]
        if "=" in words or NO_VARIABLE & set(words):
            return
        i, found = self.skip_class(start), []
        while self.at(i) != ";":
            declarator = self.read_declarator(i + (self.at(i) == ","))
            if not declarator:
                return
            name, valued, i = declarator
            if name and (valued or "extern" not in words):
                found.append("".join(name))
            if self.at(i) not in (",", ";"):
                return
        spaces = [s[1] for s in self.scopes if s[0] == "namespace" and s[1]]
        text = ""
        for name in found:
            self.variables.append(name)
            text += (
                f" static const ::npud::Variable npud_variable_{len(self.variables) - 1}"
                f"({quote('::'.join(spaces + [name]))}, {name});"
            )
        self.edits.append((self.tokens[i].end, self.tokens[i].end, text))

    def blank_gm(self):
        """Also where headers of the system have it."""
        for match in GM_WORD.finditer(self.text):
            self.edits.append((match.start(), match.end(), " " * len(GM)))

    # --- the walk ---

    def open_scope(self, start, index):
        words = [t.text for t in self.tokens[start:index]]
        if "namespace" in words and "(" not in words:
            name = "".join(words[words.index("namespace") + 1 :])
            self.scopes.append(("namespace", name))
        elif words[:1] == ["extern"] and len(words) == 2:
            self.scopes.append(("linkage", None) if words[1] == '"C"' else ("namespace", ""))
        else:
            self.scopes.append(("other", None))

    def close_scope(self, index):
        if not self.scopes:
            return
        kind, kernel = self.scopes.pop()
        if kind == "kernel":
            self.write_kernel(kernel, self.tokens[index])

    def note_word(self, start, index):
        """Returns the index to go on with."""
        text = self.at(index)
        if text == "__global__":
            self.blank(index, index)
            return self.note_kernel(start, index)
        if text in KINDS:
            self.blank_kind(index)
        elif text == GM:
            top = all(s[0] in ("linkage", "namespace") for s in self.scopes)
            if top and self.looked_at != start:
                self.note_variables(start, index)
        elif text in ("asm", "__asm__", "__asm"):
            opening = index + 1 + (self.at(index + 1) in ("volatile", "__volatile__"))
            if [self.at(opening + i) for i in range(3)] == ["(", '"trap"', ")"]:
                end = self.tokens[opening + 2].end
                self.edits.append((self.tokens[index].start, end, "__builtin_trap()"))
        elif self.scopes and TASK_TYPE.match(text):
            for kind, kernel in self.scopes:
                if kind == "kernel":
                    kernel.kind = TASK_KINDS[TASK_TYPE.match(text).group(1)]
        return index + 1

    def run(self):
        start = i = 0
        while i < len(self.tokens):
            token, text = self.tokens[i], self.tokens[i].text
            if text == "{":
                self.open_scope(start, i)
            elif text == "}":
                self.close_scope(i)
            elif text == "<" and self.is_chevron(i, "<"):
                i = self.note_launch(i)
                continue
            elif token.kind == "word":
                i = self.note_word(start, i)
                continue
            if text in ("{", "}", ";"):
                start = i + 1
            i += 1
        self.write_launches()
        self.blank_gm()
        return self.apply()

    def apply(self):
        parts, done = [], 0
        # Of edits at one place those that only insert come first.
        for start, end, text in sorted(self.edits, key=lambda e: (e[0], e[1])):
            if start < done:
                continue
            parts.append(self.text[done:start])
            parts.append(text)
            done = end
        parts.append(self.text[done:])
        return "".join(parts)


def quote(text):
    """A string of C; of a raw string in it the lines are not kept apart."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def launch_type(parameter):
    """How a parameter of a kernel is given to aclrtlaunch_NAME(): numbers as they are, everything
    else by an address."""
    words = [t.text for t in parameter]
    if "=" in words:
        words = words[: words.index("=")]
    words = [w for w in words if w not in ("const", "volatile", "struct", "__gm__", GM)]
    if len(words) > 1 and re.match(r"[^\W\d]", words[-1]) and words[-1] not in SCALARS:
        words.pop()
    return " ".join(words) if words and set(words) <= SCALARS else "void *"


def launch_parameters(kernel, extra):
    types = ["uint32_t", *extra] + [launch_type(p) for p in kernel.parameters]
    names = ["npud_blocks", *(["npud_hold"] if len(extra) == 2 else []), "npud_stream"]
    names += [f"npud_{i}" for i in range(len(kernel.parameters))]
    return ", ".join(f"{t}{'' if t.endswith('*') else ' '}{n}" for t, n in zip(types, names))


def launch_function(kernel):
    names = ", ".join(f"npud_{i}" for i in range(len(kernel.parameters)))
    kind = "" if kernel.kind == "AICORE" else f"<ACL_KERNEL_TYPE_{kernel.kind}>"
    return (
        f'extern "C" uint32_t aclrtlaunch_{kernel.name}('
        f"{launch_parameters(kernel, ['aclrtStream'])}) {{ return static_cast<uint32_t>("
        f'::npud::launch{kind}("{kernel.name}", &{kernel.name}, npud_blocks, nullptr, npud_stream)'
        f".forward({names})); }}"
    )


LAUNCH_HEADER = """/* Launches the kernel {name}. Written by npud's ascendc.cmake. */
#ifndef HEADER_ACLRTLAUNCH_{upper}_H
#define HEADER_ACLRTLAUNCH_{upper}_H

#include "acl/acl_base.h"

#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel_func) aclrtlaunch_##kernel_func
#endif

#ifdef __cplusplus
extern "C"
#endif
uint32_t aclrtlaunch_{name}({parameters});

#ifdef __cplusplus
/* With a pointer that is held for the launch, as newer toolkits have it: it is not used. */
inline uint32_t aclrtlaunch_{name}({hold_parameters})
{{
    (void)npud_hold;
    return aclrtlaunch_{name}({arguments});
}}
#endif

#endif
"""


def launch_header(kernel):
    arguments = ["npud_blocks", "npud_stream"]
    arguments += [f"npud_{i}" for i in range(len(kernel.parameters))]
    return LAUNCH_HEADER.format(
        name=kernel.name,
        upper=kernel.name.upper(),
        parameters=launch_parameters(kernel, ["aclrtStream"]),
        hold_parameters=launch_parameters(kernel, ["const void *", "aclrtStream"]),
        arguments=", ".join(arguments),
    )


def translate(text, name="<source>", launch_functions=False):
    """The source without what only kernels have. Raises TranslateError. launch_functions: for each
    kernel with extern "C" also the function aclrtlaunch_NAME()."""
    if not NEEDED.search(text):
        return text
    return Translation(text, name, launch_functions).run()


def find_kernels(text, name="<source>"):
    """The kernels that a source defines, which need not have gone through the preprocessor."""
    if not NEEDED.search(text):
        return []
    translation = Translation(text, name, False)
    translation.run()
    return [k for k in translation.kernels if k.defined and k.plain and k.top]
