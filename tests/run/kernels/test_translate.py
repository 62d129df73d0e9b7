"""The translator of kernels: sources and what they become, errors, and token soup.

usage: test_translate.py FOLDER_OF_TRANSLATE [ROUNDS [SEED]]
"""

import os
import random
import re
import sys
import unittest

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else int.from_bytes(os.urandom(4), "little")
sys.path.insert(0, sys.argv[1])
import translate  # pylint: disable=wrong-import-position

RECORD = "static const ::npud::Record<&{0}> npud_record_{1}(\"{2}\", ACL_KERNEL_TYPE_{3}, {4});"


def record(name, number=0, qualified=None, kind="AICORE", plain="false"):
    return " " + RECORD.format(name, number, qualified or name, kind, plain)


# A source, and what it becomes.
LAUNCHES = [
    ("k<<<1, nullptr, s>>>(a);", '::npud::launch("k", k, 1, nullptr, s)(a);'),
    ("k<<<1,0,s>>>();", '::npud::launch("k", k, 1,0,s)();'),
    ("return k<<<n, l2, s>>>(a, b);", 'return ::npud::launch("k", k, n, l2, s)(a, b);'),
    ("int r=k<<<1,0,s>>>(x)+1;", 'int r=::npud::launch("k", k, 1,0,s)(x)+1;'),
    # Templates, namespaces, members, pointers.
    ("k<float, 4><<<1, 0, s>>>(a);",
     '::npud::launch("k<float, 4>", k<float, 4>, 1, 0, s)(a);'),
    ("k<><<<1,0,s>>>();", '::npud::launch("k<>", k<>, 1,0,s)();'),
    ("k<A<B<int>>><<<1,0,s>>>(a);", '::npud::launch("k<A<B<int>>>", k<A<B<int>>>, 1,0,s)(a);'),
    ("k<(a > b), f(c, d)><<<1,0,s>>>(a);",
     '::npud::launch("k<(a>b), f(c, d)>", k<(a > b), f(c, d)>, 1,0,s)(a);'),
    ("a::b::k<<<1,0,s>>>(a);", '::npud::launch("a::b::k", a::b::k, 1,0,s)(a);'),
    ("return ::k<<<1,0,s>>>(a);", 'return ::npud::launch("::k", ::k, 1,0,s)(a);'),
    ("x = A<int>::k<<<1,0,s>>>(a);", 'x = ::npud::launch("A<int>::k", A<int>::k, 1,0,s)(a);'),
    ("A<T>::template k<T><<<1,0,s>>>(a);",
     '::npud::launch("A<T>::template k<T>", A<T>::template k<T>, 1,0,s)(a);'),
    ("(k)<<<1,0,s>>>(a);", '::npud::launch("k", (k), 1,0,s)(a);'),
    ("(c ? (k) : m)<<<1,0,s>>>(a);",
     '::npud::launch("c ?(k): m", (c ? (k) : m), 1,0,s)(a);'),
    ("f(x)[2]<<<1,0,s>>>(a);", '::npud::launch("f(x)[2]", f(x)[2], 1,0,s)(a);'),
    ("o.p->k<<<1,0,s>>>(a);", '::npud::launch("o.p->k", o.p->k, 1,0,s)(a);'),
    ("if (c) k<<<1,0,s>>>(a); else return k<<<2,0,s>>>(a);",
     'if (c) ::npud::launch("k", k, 1,0,s)(a); else return ::npud::launch("k", k, 2,0,s)(a);'),
    # What stands between <<< and >>>.
    ("k<<<(n + 1) >> 2, 1 << 3, s>>>(a);",
     '::npud::launch("k", k, (n + 1) >> 2, 1 << 3, s)(a);'),
    ("k<<<f<A<B<int>>>(x), nullptr, s>>>(a);",
     '::npud::launch("k", k, f<A<B<int>>>(x), nullptr, s)(a);'),
    ("k<<<v<A<B<int>>>::n, nullptr, s>>>(a);",
     '::npud::launch("k", k, v<A<B<int>>>::n, nullptr, s)(a);'),
    ("k<<<1, 0, f<g<h<int>>>(s)>>>(a);",
     '::npud::launch("k", k, 1, 0, f<g<h<int>>>(s))(a);'),
    ("k<<<1, 0, f<g<h<int> >>(s)>>>(a);",
     '::npud::launch("k", k, 1, 0, f<g<h<int> >>(s))(a);'),
    ("int x = 1'0; k<<<1,0,s>>>(2'0);", "int x = 1'0; ::npud::launch(\"k\", k, 1,0,s)(2'0);"),
    ("k<<<std::min(a, b), nullptr, g(s, t)>>>(a);",
     '::npud::launch("k", k, std::min(a, b), nullptr, g(s, t))(a);'),
    ("k<<<[&] { return a, b; }(), nullptr, s>>>(a);",
     '::npud::launch("k", k, [&] { return a, b; }(), nullptr, s)(a);'),
    ("k<<<1, ',', \">>>(\"[0]>>>(a);", "::npud::launch(\"k\", k, 1, ',', \">>>(\"[0])(a);"),
    ("k<<<1, 0, s>>>(g<<<1, 0, s>>>(a));",
     '::npud::launch("k", k, 1, 0, s)(::npud::launch("g", g, 1, 0, s)(a));'),
    # Lines stay where they are.
    ("k<<<\n  1,\n  0, s\n>>>\n(a,\n b);", '::npud::launch("k", k, \n  1,\n  0, s\n)\n(a,\n b);'),
    ("k\n<float>\n<<<1,0,s>>>(a);", '::npud::launch("k<float>", k\n<float>\n, 1,0,s)(a);'),
    ('k<<<1,\n# 7 "f.cpp" 2\n0,s>>>(a);', '::npud::launch("k", k, 1,\n# 7 "f.cpp" 2\n0,s)(a);'),
    ("k /* <<< */ <<< 1, 0, s /* >>>( */ >>> (a);",
     '::npud::launch("k", k /* <<< */ ,  1, 0, s /* >>>( */ ) (a);'),
    # The preprocessor may have put a blank between the second and the third.
    ("k<< <1,0,s>> >(a);", '::npud::launch("k", k, 1,0,s)(a);'),
    ("k<R\"(a\nb)\"[0]><<<1,0,s>>>();",
     '::npud::launch("k<R\\"(a\\nb)\\"[0]>", k<R"(a\nb)"[0]>, 1,0,s)();'),
    # A trap.
    ('asm("trap");', "__builtin_trap();"),
    ('if (x) __asm__ volatile ( "trap" );', "if (x) __builtin_trap();"),
]

KERNELS = [
    ("__global__ void k(int a) { }", "           void k(int a) { }" + record("k")),
    ('extern "C" __global__ void k() { if (x) { } }\nint y;',
     'extern "C"            void k() { if (x) { } }' + record("k", plain="true") + "\nint y;"),
    ('extern "C" {\n__global__ void k() {}\n}',
     'extern "C" {\n           void k() {}' + record("k", plain="true") + "\n}"),
    ("namespace a { namespace b::c { namespace { __global__ void k() {} } } }",
     "namespace a { namespace b::c { namespace {            void k() {}"
     + record("k", qualified="a::b::c::k") + " } } }"),
    ("__global__ __vector__ void k() {}",
     "                      void k() {}" + record("k", kind="VECTOR")),
    ("__global__ __cube__ void k() {}",
     "                    void k() {}" + record("k", kind="CUBE")),
    ("__mix__(1, 2) __global__ void k() {}",
     "                         void k() {}" + record("k", kind="MIX")),
    ("__global__ void k() { npud::task_type_KERNEL_TYPE_AIV_ONLY; }",
     "           void k() { npud::task_type_KERNEL_TYPE_AIV_ONLY; }" + record("k", kind="VECTOR")),
    # What a macro of a system header has left here.
    ('# 3 "a.cpp"\n__global__ void k() {\n# 4 "a.cpp" 3 4\nnpud::task_type_KERNEL_TYPE_AIV_ONLY\n'
     '# 4 "a.cpp"\n; }',
     '# 3 "a.cpp"\n           void k() {\n# 4 "a.cpp" 3 4\nnpud::task_type_KERNEL_TYPE_AIV_ONLY\n'
     '# 4 "a.cpp"\n; }' + record("k", kind="VECTOR")),
    ("static __global__ __attribute__((used)) void k(int (*f)(int), A<1, 2> b) noexcept {}",
     "static            __attribute__((used)) void k(int (*f)(int), A<1, 2> b) noexcept {}"
     + record("k")),
    ("[[maybe_unused]] __global__ [[x(y)]] inline void k() {}",
     "[[maybe_unused]]            [[x(y)]] inline void k() {}" + record("k")),
    ('extern "C++" {\n__global__ void k() {}\n}',
     'extern "C++" {\n           void k() {}' + record("k") + "\n}"),
    ("template <int n> struct A; __global__ void k() {}",
     "template <int n> struct A;            void k() {}" + record("k")),
    ("template <int n> void f() {} __global__ void k() {}",
     "template <int n> void f() {}            void k() {}" + record("k")),
    ("template <int n> __global__ void k() {} __global__ void k(int) {}",
     "template <int n>            void k() {}            void k(int) {}" + record("k")),
    # Declarations, templates, members: no record.
    ("__global__ void k(int);", "           void k(int);"),
    ("template <typename T> __global__ void k(T t) {}",
     "template <typename T>            void k(T t) {}"),
    ("template <> __global__ void k<int>(int) {}", "template <>            void k<int>(int) {}"),
    ("template __global__ void k<int>(int);", "template            void k<int>(int);"),
    ("struct A { static __global__ void k() {} };", "struct A { static            void k() {} };"),
    # Two, and launches of them.
    ("__global__ void k() {} __global__ __vector__ void m() {} void f() { m<<<1,0,s>>>(); }",
     "           void k() {}" + record("k") + "                       void m() {}"
     + record("m", 1, kind="VECTOR")
     + ' void f() { ::npud::launch<ACL_KERNEL_TYPE_VECTOR>("m", m, 1,0,s)(); }'),
    ("template <typename T> __global__ __vector__ void k() {} auto r = k<int><<<1,0,s>>>();",
     "template <typename T>                       void k() {} auto r = "
     '::npud::launch<ACL_KERNEL_TYPE_VECTOR>("k<int>", k<int>, 1,0,s)();'),
]

# The head of a template, how a launch names it, and what is deduced: of which template, by what.
DEDUCTIONS = [
    ("<typename T, class U>", "k", "k", "k<T, U>"),
    ("<typename T, int N = f(1, 2)>", "a::k", "a::npud_deduce_k", "k<T, N>"),
    ("<typename T, int N = 3>", "k<A<int>>", None, None),
    ("<typename T, typename U>", "k<A<int>>", "npud_deduce_k<A<int>>", "k<T, U>"),
    ("<typename T, typename U>", "k<int, float>", None, None),
    ("<typename T>", "k<>", "npud_deduce_k<>", "k<T>"),
    ("<typename T, typename U>", "k::k<k>", "k::npud_deduce_k<k>", "k<T, U>"),
    ("<typename... T>", "k", "k", "k<T...>"),
    ("<typename... T>", "k<int>", None, None),
    ("<template <typename, typename> class C, bool b, auto v>", "k", "k", "k<C, b, v>"),
    ("<typename T, int = 3>", "k<int>", None, None),
]

# Declarations with __gm__, and the variables that they define: what registers each, by its name.
VARIABLES = [
    ("GM int x;", ["x"]),
    ("static GM float y[4] = {1, 2}, z{3}, *w;", ["y", "z", "w"]),
    ("GM unsigned long n = f(1, g<2>(3));", ["n"]),
    ("GM std::array<int, 4> q, r;", ["q", "r"]),
    ("alignas(64) GM int x __attribute__((aligned(8)));", ["x"]),
    ("[[gnu::used]] const GM volatile float c[3][4] = {{1}, {2}};", ["c"]),
    ("GM void (*f)(int, GM char *);", ["f"]),
    ("GM int (*table[4])(int) = {g, h};", ["table"]),
    ("GM struct P { int a; GM float *b; } p = {1}, q;", ["p", "q"]),
    ("struct { int a; } GM x;", ["x"]),
    ("GM struct P p{1};", ["p"]),
    ("GM enum { A, B } e = B;", ["e"]),
    ("extern GM int e = 3;", ["e"]),
    ("GM int S::m = 3;", ["S::m"]),
    ('extern "C" { GM int x; }', ["x"]),
    # None.
    ("extern GM int e;", []),
    ('extern "C" GM int e;', []),
    ("GM char *f(GM char *x); GM T *g(GM T *a) { GM T *b = a; return b; }", []),
    ("template <typename T> GM T v;", []),
    ("using P = GM float *; typedef GM float *Q;", []),
    ("struct S { static GM int m; GM int *p; };", []),
    ("void f() { static GM int x; }", []),
    ("auto l = [](GM int *x) { return x; };", []),
    ("__global__ void k(GM int *x) { GM int *y; }", []),
    ("GM int x = {", []),
    ("GM", []),
]

# What must stay as it is.
UNCHANGED = [
    "a << b; a <<= b; x<(1 << 2)> y; std::cout << a << b << c;",
    "std::vector<std::vector<std::vector<int>>> v; f<g<h<int>>>(1);",
    'const char *s = "k<<<1, 0, s>>>(a)", *t = "\\"<<<", c = \'<\';',
    'auto s = R"x(k<<<1, 0, s>>>(a) )" )x"; u8R"(<<<)"; LR"(")<<<)";',
    "// k<<<1, 0, s>>>(a)\\\n <<< __global__\n/* <<< \n __global__ */ int x = 1'000'000;",
    "#define L k<<<1, 0, s>>>(a)\n#define M \\\n  __global__ k<<<1\nint x;",
    "std::ostream &operator<<<T>(std::ostream &, const X<T> &);",
    "template <> std::ostream &operator<< <char>(std::ostream &, char);",
    'asm("nop"); asm volatile("trap" : : "r"(x)); f("trap");',
    'int system;\n# 1 "/usr/include/x.h" 1 3\n__global__ k<<<1, 0, s>>>(a);\n# 2 "a.cpp" 2\nint y;',
    '# 1 "a.h"\n# 1 "x.h" 1 3\n__global__ k\n# 1 "a.h" 1 3\n__global__\n# 9 "x.h" 2 3\n<<<\n'
    '# 2 "a.h" 2',
]

ERRORS = [
    ("\n\n k<<<1, s>>>(a);", "a.cpp:3", "all three values"),
    ("k<<<1, 0, s>>>;", "a.cpp:1", "no arguments follow"),
    ("k<<<1, 0, s>>(a);", "a.cpp:1", "is no launch"),
    ("k<<<1, 0, s", "a.cpp:1", "is no launch"),
    ("f(k<<<1, 0); s>>>(a)", "a.cpp:1", "is no launch"),
    ("k<<<1, 0, s; x = a>>>(b);", "a.cpp:1", "is no launch"),
    ("f(k<<<1, 0, s) >>>(a)", "a.cpp:1", "is no launch"),
    ("k<<<f(1, 2), 0>>>(a);", "a.cpp:1", "is no launch"),
    ("<<<1, 0, s>>>(a);", "a.cpp:1", "the name of a kernel"),
    ("return <<<1, 0, s>>>(a);", "a.cpp:1", "the name of a kernel"),
    ("x = 5<<<1, 0, s>>>(a);", "a.cpp:1", "the name of a kernel"),
    ("\n__global__ int x;", "a.cpp:2", "no function follows"),
    ("__global__", "a.cpp:1", "no function follows"),
    ("__global__ void k() {}\n__global__ void k(int) {}", "a.cpp:2", "two kernels are called k"),
    ("template <typename T, typename> __global__ void k(T) {}\nint r = k<<<1,0,s>>>(1);",
     "a.cpp:2", "k<...><<<"),
    ("template <typename T, typename E<T>::type = 0> __global__ void k(T) {}\n"
     "int r = k<<<1,0,s>>>(1);", "a.cpp:2", "k<...><<<"),
    ("struct A { template <typename T> static __global__ void k(T) {} };\n"
     "int r = A::k<<<1,0,s>>>(1);", "a.cpp:2", "k<...><<<"),
    ("GM int a = 1;\nGM int b = x < y, c;".replace("GM", translate.GM), "a.cpp:2",
     "one variable with __gm__"),
    ("__mix__(1 __global__ void k() {}", "a.cpp:1", "closes this __mix__"),
    ('# 40 "dir/b.h" 1\n\nk<<<1>>>(a);\n# 3 "a.cpp" 2\n', "dir/b.h:41", "all three values"),
]

HEADERS = [
    ('extern "C" __global__ void k(GM_ADDR a, const float b, T t, __gm__ int *c, '
     "unsigned long n) {}",
     "void *npud_0, float npud_1, void *npud_2, void *npud_3, unsigned long npud_4"),
    ('extern "C" { __global__ __aicore__ void k(uint32_t, half h, int8_t x = 3) {} }',
     "uint32_t npud_0, void *npud_1, int8_t npud_2"),
    ('extern "C" __global__ void k(unsigned long, Enum) {}',
     "unsigned long npud_0, void *npud_1"),
    ('extern "C" __global__ void k(void) {}', ""),
]

SOUP = (
    "<<< >>> << >> < > ( ) [ ] { } ; , :: . -> = ' \" \\ # ` @ $ \n \t __global__ __mix__ __cube__ "
    "__vector__ template typename namespace extern \"C\" struct operator asm \"trap\" return k "
    "k<1> f(x) R\"(x)\" R\"x( )x\" // /* */ 1'0 'a' 0x1p-3 const void int #define \\\n <= >= ... ä "
    "# 1 \"a\" 3\n k<<<1,0,s>>>(a) __global__ void k() { __npud_gm__ = __npud_gm__ int "
).split(" ")
QUIET = [w for w in SOUP if "<<" not in w and "__global__" not in w and "gm" not in w
         and w not in ("asm", '"trap"') and "__asm" not in w and w != "<"]


class Translator(unittest.TestCase):
    maxDiff = None

    def test_launches(self):
        for source, result in LAUNCHES:
            with self.subTest(source):
                self.assertEqual(translate.translate(source, "a.cpp"), result)

    def test_kernels(self):
        for source, result in KERNELS:
            with self.subTest(source):
                self.assertEqual(translate.translate(source, "a.cpp"), result)

    def test_deductions(self):
        for head, name, call, kernel in DEDUCTIONS:
            source = f"template {head} __global__ __cube__ void k(T const t, GM x)\n{{}}"
            with self.subTest(head + name):
                result = translate.translate(f"{source} auto r = {name}<<<1,0,s>>>(a);"
                                             .replace("GM", translate.GM))
                shown = name.replace(" ", "").replace(",", ", ")
                if not call:
                    self.assertIn(f'{{}} auto r = ::npud::launch<ACL_KERNEL_TYPE_CUBE>("{shown}", '
                                  f"{name}, 1,", result)
                    continue
                call = "npud_deduce_k" if call == "k" else call
                kernel = f"::npud::Deduced<decltype(&{kernel}), &{kernel}>"
                self.assertIn(f"{{}} template {head} {kernel} npud_deduce_k(T const t,  x); "
                              "auto r = ::npud::launch_deduced"
                              f'<ACL_KERNEL_TYPE_CUBE>("{shown}", [](auto &&...npud_values) {{ '
                              f"return decltype({call}(npud_values...))::value; }}, 1,0,s)(a);",
                              result)
        # Behind each declaration, once; and for launches alone that need it.
        source = ("template <typename T> __global__ void k(T); "
                  "template <typename T> __global__ void m(T);")
        result = translate.translate(source + " void f() { k<<<1,0,s>>>(1); k<<<1,0,s>>>(2); }")
        self.assertEqual(result.count("> npud_deduce_k(T);"), 1)
        self.assertNotIn("npud_deduce_m", result)

    def test_variables(self):
        pattern = r'npud::Variable npud_variable_(\d)\("(.*?)", (.*?)\);'
        for source, names in VARIABLES:
            for around, space in ("%s", ""), ("namespace a { namespace { %s } }", "a::"):
                with self.subTest(around % source):
                    text = (around % source).replace("GM", translate.GM)
                    result = translate.translate(text, "a.cpp")
                    self.assertNotIn(translate.GM, result)
                    self.assertEqual(re.findall(pattern, result),
                                     [(str(i), space + name, name)
                                      for i, name in enumerate(names)])
        # Behind the declaration, on its line; and the word goes wherever it is.
        text = translate.translate('GM int a =\n3; GM int b;\n# 1 "s.h" 3\nGM int c;'
                                   .replace("GM", translate.GM))
        space = " " * len(translate.GM)
        self.assertEqual(text, f'{space} int a =\n3; static const ::npud::Variable npud_variable_0'
                         f'("a", a); {space} int b; static const ::npud::Variable npud_variable_1'
                         f'("b", b);\n# 1 "s.h" 3\n{space} int c;')

    def test_unchanged(self):
        for source in UNCHANGED:
            with self.subTest(source):
                self.assertEqual(translate.translate(source, "a.cpp"), source)
                # Also where there is something to do beside it.
                self.assertEqual(translate.translate(source + "\nk<<<1,0,s>>>();", "a.cpp"),
                                 source + '\n::npud::launch("k", k, 1,0,s)();')

    def test_errors(self):
        for source, place, words in ERRORS:
            with self.subTest(source):
                with self.assertRaises(translate.TranslateError) as caught:
                    translate.translate(source, "a.cpp")
                self.assertTrue(str(caught.exception).startswith(place + ": error: "),
                                caught.exception)
                self.assertIn(words, str(caught.exception))

    def test_headers(self):
        for source, parameters in HEADERS:
            with self.subTest(source):
                kernels = translate.find_kernels(source)
                header = translate.launch_header(kernels[0])
                start = "uint32_t aclrtlaunch_k(uint32_t npud_blocks, "
                rest = f"aclrtStream npud_stream{', ' * bool(parameters)}{parameters})"
                self.assertIn(f"{start}{rest};", header)
                self.assertIn(f"{start}const void *npud_hold, {rest}\n", header)
                self.assertIn(f"{start}{rest} {{", translate.translate(source, "", True))

    def test_kernels_found(self):
        source = ('extern "C" __global__ void a() {} __global__ void b() {}\n'
                  'extern "C" __global__ void c();\n'
                  'namespace n { extern "C" __global__ void d() {} }')
        self.assertEqual([k.name for k in translate.find_kernels(source)], ["a"])

    def test_nothing_to_do(self):
        """Without <<<, __global__ and asm("trap") every text stays as it is."""
        for text in self.soups(QUIET):
            self.assertEqual(translate.translate(text, "a.cpp"), text)
            if not any(kind in text for kind in translate.KINDS):
                self.assertEqual(translate.Translation(text, "a.cpp", True).run(), text)

    def test_soup(self):
        """Any text gives a text of as many lines, or an error with its place."""
        for text in self.soups(SOUP):
            try:
                result = translate.translate(text, "a.cpp", True)
            except translate.TranslateError as error:
                self.assertRegex(str(error), r"(?s)^.*:\d+: error: ")
            else:
                self.assertEqual(result.count("\n"), text.count("\n"), text)

    def test_true_sources(self):
        """Pieces of sources that are understood, in any order."""
        pieces = [p for p in LAUNCHES if "#" not in p[0]]
        chance = random.Random(SEED)
        for _ in range(ROUNDS // 10):
            chosen = [chance.choice(pieces) for _ in range(chance.randrange(1, 20))]
            self.assertEqual(translate.translate("\n".join(p[0] for p in chosen), "a.cpp"),
                             "\n".join(p[1] for p in chosen))

    def soups(self, words):
        chance = random.Random(SEED)
        for _ in range(ROUNDS):
            number = chance.randrange(1, 60)
            yield "".join(chance.choice(words) + " " * chance.randrange(2) for _ in range(number))


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1])
