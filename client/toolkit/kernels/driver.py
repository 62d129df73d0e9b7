#!/usr/bin/python3 -EsB
"""bisheng: compiles kernels for the host, as the compiler of this name does for a device.

usage: bisheng [OPTIONS OF THE HOST'S COMPILER] SOURCE...   compile and link, also with -c, -S, -E
       bisheng --npud-launcher COMPILER ARGUMENTS...        the same with that compiler; the first
                                                            argument is an option
       bisheng --npud-launch-headers FOLDER SOURCE...       write aclrtlaunch_NAME.h for each kernel

The sources go through the preprocessor, through translate.py, and through the compiler, which is
NPUD_HOST_CXX, or c++. Options that only a compiler for devices has are left out.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

import translate

HERE = os.path.dirname(os.path.realpath(__file__))
# In the toolkit tree; or where npud was built, as BUILD/bisheng.
BUILT = os.path.isdir(os.path.join(HERE, "..", "tikcfw"))
TREE = os.path.dirname(os.path.dirname(os.path.dirname(HERE) if BUILT else HERE))
HEADERS = os.path.join(HERE, "..", "tikcfw") if BUILT else f"{TREE}/tools/tikcpp/tikcfw"
LIBRARY = (
    [f"-L{os.path.dirname(os.path.abspath(sys.argv[0]))}", "-laclclient"]
    if BUILT
    else [f"-L{TREE}/lib64", "-lascendcl"]
)
SOURCES = (".asc", ".cce", ".cpp", ".cc", ".cxx", ".c++", ".C", ".cp")

CPLUSPLUS = ("c++", "asc", "cce")  # as values of -x

# Options of compilers for devices, which say nothing about the host.
DEVICE_OPTION = re.compile(
    r"--(npu|cce|enable|run|soc|asc)-?[\w-]*(=.*)?$|-f?cce.*|--target=.*|-x(cce|asc)$"
    r"|-forward-options-to-host-compiler$|-?-X(host|aicore)-(start|end)$"
)
NPU_ARCH = re.compile(r"--npu-arch=dav-(\d+)$")
# These are followed by a value that is an argument of its own. True: it is for a device, too.
WITH_VALUE = {
    "-mllvm": True, "-Xaicore": True, "-o": False, "-I": False, "-D": False, "-U": False,
    "-L": False, "-l": False, "-include": False, "-imacros": False, "-isystem": False,
    "-iquote": False, "-idirafter": False, "-MF": False, "-MT": False, "-MQ": False,
    "-Xlinker": False, "-Xpreprocessor": False, "-x": False, "-u": False, "-T": False,
    "-isysroot": False, "--param": False, "-z": False, "-Xassembler": False,
}
# Of the preprocessor alone.
PREPROCESSOR = re.compile(
    r"-(I|D|U|include|imacros|isystem|iquote|idirafter|M\w*|Wp,.*|Xpreprocessor)"
)
OLD_STANDARD = re.compile(r"-std=(c|gnu)\+\+(98|03|0x|11|1y|14)$")


class Arguments:
    """What a command line says."""

    def __init__(self, words):
        self.mode = ""  # -c, -S, -E, -fsyntax-only
        self.output = None
        self.sources = []
        self.options = []  # of the host's compiler, for each step; lists of one or two words
        self.files = []  # (number of options before it, file): objects and libraries
        self.arch = None
        self.verbose = False
        self.read(words)

    def read(self, words):
        words = [w for word in words for w in read_response(word)]
        i, language = 0, None
        while i < len(words):
            word = words[i]
            value = [words[i + 1]] if word in WITH_VALUE and i + 1 < len(words) else []
            i += 1 + len(value)
            if NPU_ARCH.match(word):
                self.arch = NPU_ARCH.match(word).group(1)
            elif DEVICE_OPTION.match(word) or WITH_VALUE.get(word):
                continue
            elif word in ("-c", "-S", "-E", "-fsyntax-only"):
                self.mode = word
            elif word == "-o" and value:
                self.output = value[0]
            elif word == "-x" and value:
                language = None if value[0] == "none" else value[0]
            elif not word.startswith("-") and (language in CPLUSPLUS if language
                                               else word.endswith(SOURCES)):
                self.sources.append(word)
            elif not word.startswith("-"):
                self.files.append((len(self.options), word))
            else:
                self.verbose = self.verbose or word == "-v"
                self.options.append([OLD_STANDARD.sub(r"-std=\1++17", word)] + value)
        if not any(o[0].startswith("-std=") for o in self.options):
            self.options.append(["-std=gnu++17"])

    def flat(self, keep=lambda option: True):
        return [w for option in self.options if keep(option[0]) for w in option]

    def link_words(self):
        """Options and files in their order, because that matters for libraries."""
        words, files = [], list(self.files)
        for i, option in enumerate(self.options + [[]]):
            while files and files[0][0] == i:
                words.append(files.pop(0)[1])
            if not (option and PREPROCESSOR.match(option[0])):
                words += option
        return words


def read_response(word):
    """The words of @FILE, as the host's compiler reads them."""
    if not (word.startswith("@") and os.path.isfile(word[1:])):
        return [word]
    with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
        return [w for inner in shlex.split(file.read()) for w in read_response(inner)]


class Driver:
    def __init__(self, compiler, arguments, folder):
        self.compiler, self.arguments, self.folder = compiler, arguments, folder

    def call(self, words):
        if self.arguments.verbose:
            print(" ".join(shlex.quote(w) for w in self.compiler + words), file=sys.stderr)
        status = subprocess.call(self.compiler + words)
        if status:
            sys.exit(status if status > 0 else 1)

    def dependency_words(self, source, output):
        """Names that the compiler would take from the output."""
        words = [o[0] for o in self.arguments.options]
        if not any(w in ("-MD", "-MMD") for w in words):
            return []
        result = [] if "-MT" in words or "-MQ" in words else ["-MT", output]
        if "-MF" not in words:
            result += ["-MF", os.path.splitext(output)[0] + ".d"]
        return result

    def preprocess(self, source, output, to):
        arch = [f"-D__NPU_ARCH__={self.arguments.arch}"] if self.arguments.arch else []
        self.call(
            ["-DNPUD_TRANSLATE=1", *arch, *self.arguments.flat(),
             "-isystem", os.path.join(TREE, "include"), "-isystem", HEADERS,
             "-isystem", os.path.join(HEADERS, "lib"), "-include", "npud_kernel.h",
             *self.dependency_words(source, output), "-x", "c++", "-E", source, "-o", to]
        )

    def translate_file(self, source, name):
        with open(name, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
        text = translate.translate(text, source, launch_functions=True)
        with open(name, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)

    def unload_words(self):
        """The option of g++ without which a library with templates is never unloaded, so that
        aclrtBinaryUnLoad() would do nothing. clang++ does not have it, and needs none."""
        version = subprocess.run(self.compiler + ["--version"], stdout=subprocess.PIPE, check=False)
        return [] if b"clang" in version.stdout else ["-fno-gnu-unique"]

    def compile(self, source, output, mode):
        name = os.path.join(self.folder, f"{len(os.listdir(self.folder))}.ii")
        self.preprocess(source, output, name)
        if any(o[0] in ("-M", "-MM") for o in self.arguments.options):
            return
        self.translate_file(source, name)
        if mode == "-E":
            with open(name, "rb") as file:
                write_output(file.read(), self.arguments.output)
            return
        words = self.arguments.flat(lambda o: not PREPROCESSOR.match(o) and not is_link_option(o))
        out = [] if mode == "-fsyntax-only" else ["-o", output]
        self.call([*self.unload_words(), *words, mode, "-x", "c++-cpp-output", name, *out])

    def run(self):
        args = self.arguments
        if args.mode:
            for source in args.sources:
                suffix = {"-c": ".o", "-S": ".s"}.get(args.mode, "")
                output = args.output or os.path.splitext(os.path.basename(source))[0] + suffix
                self.compile(source, output, args.mode)
            return
        objects = []
        for i, source in enumerate(args.sources):
            objects.append(os.path.join(self.folder, f"{i}.o"))
            self.compile(source, objects[-1], "-c")
        out = ["-o", args.output] if args.output else []
        self.call([*objects, *args.link_words(), *LIBRARY, *out])


def is_link_option(word):
    return re.match(r"-(l|L|Wl,|Xlinker|shared$|pie$|rdynamic$|static|z$|u$|T$)", word) is not None


def write_output(data, output):
    if output and output != "-":
        with open(output, "wb") as file:
            file.write(data)
    else:
        sys.stdout.buffer.write(data)


def write_if_changed(name, text):
    """Leaves the file's time as it is where nothing has changed, so that nothing is built again."""
    try:
        with open(name, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def write_launch_headers(folder, sources):
    """Prints the name of each header."""
    os.makedirs(folder, exist_ok=True)
    for source in sources:
        with open(source, encoding="utf-8", errors="surrogateescape") as file:
            kernels = translate.find_kernels(file.read(), source)
        for kernel in kernels:
            name = os.path.join(folder, f"aclrtlaunch_{kernel.name}.h")
            write_if_changed(name, translate.launch_header(kernel))
            print(name)


def main(words):
    if words[:1] == ["--npud-launch-headers"]:
        return write_launch_headers(words[1], words[2:])
    compiler = shlex.split(os.environ.get("NPUD_HOST_CXX", "c++"))
    if words[:1] == ["--npud-launcher"]:
        # The project's compiler may be two words: "ccache c++".
        n = next((i for i, word in enumerate(words) if i > 1 and word[:1] == "-"), 2)
        compiler, words = words[1:n], words[n:]
    arguments = Arguments(words)
    if not arguments.sources and not arguments.files:
        sys.exit(subprocess.call(compiler + words))
    if not arguments.sources and arguments.mode:
        sys.exit(subprocess.call(compiler + words))
    with tempfile.TemporaryDirectory(prefix="bisheng-") as folder:
        Driver(compiler, arguments, folder).run()
    return None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except translate.TranslateError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"bisheng: error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
