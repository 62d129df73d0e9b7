#include "client/core/program_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "proto/util/lift_fd.h"

/* In bytes: a program that is run with more options before its script goes without that. */
#define CMDLINE_MAX 4096

/* The kernel's name of a thread, with the last byte. */
#define COMM_MAX 16

/* The last part of a path. */
static const char *find_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* --- the main thread's name --- */

/*
 * execve() names the main thread after the file that it was given, which for a script is the
 * script. So another name is the program's own. False: it has none.
 */
static bool read_own_name(char comm[COMM_MAX])
{
    const char *file = (const char *)getauxval(AT_EXECFN); /* NOLINT(performance-no-int-to-ptr) */
    FILE *f = lift_open("/proc/self/comm");
    bool read = f && fgets(comm, COMM_MAX, f);

    if (f)
        fclose(f);
    if (!read)
        return false;
    comm[strcspn(comm, "\n")] = '\0';
    return comm[0] && file && strncmp(comm, find_base(file), COMM_MAX - 1) != 0;
}

/* --- scripts --- */

/* Letters of short options. What `rest` has takes the rest of its word, the others the next one. */
struct interpreter {
    const char *name;   /* versions may follow */
    const char *code;   /* its value is the program, or the standard input is: there is no script */
    const char *module; /* its value is a module, which is run as a script */
    const char *value;
    const char *rest;
};

static const struct interpreter interpreters[] = {
    {"python", "c", "m", "WXQ", ""},
    {"pypy", "c", "m", "WXQ", ""},
    {"perl", "eE", "", "I", "0CDFMdilmx"},
    {"ruby", "e", "", "CEIr", "0FKTWilx"},
    {"node", "ep", "", "Cr", ""},
    {"lua", "e", "", "l", ""},
    {"bash", "cs", "", "Oo", ""},
    {"dash", "cs", "", "o", ""},
    {"zsh", "cs", "", "o", ""},
    {"sh", "cs", "", "o", ""},
};

/* "python", "python3.11", "python3-dbg", and not "pythonista" */
static const struct interpreter *find_interpreter(const char *name)
{
    for (size_t i = 0; i < sizeof(interpreters) / sizeof(interpreters[0]); i++) {
        size_t n = strlen(interpreters[i].name);

        if (strncmp(name, interpreters[i].name, n) == 0 && !(name[n] >= 'a' && name[n] <= 'z'))
            return &interpreters[i];
    }
    return NULL;
}

/* What follows an option in the same word or, if nothing does, the next word. */
static const char *find_value(const char *letter, const char *next)
{
    return letter[1] ? letter + 1 : next;
}

/* Words that end with a null byte each; after the last is an empty one. */
static const char *next_word(const char *word)
{
    return word + strlen(word) + 1;
}

/*
 * The word of options: NULL if more may follow, at *word; otherwise the script or module, "" for
 * none.
 */
static const char *pass_options(const struct interpreter *in, const char **word)
{
    const char *next = next_word(*word);

    for (const char *c = *word + 1; *c; c++) {
        if (strchr(in->code, *c))
            return "";
        if (strchr(in->module, *c))
            return find_value(c, next);
        if (strchr(in->value, *c) && !c[1] && *next)
            next = next_word(next);
        if (strchr(in->value, *c) || strchr(in->rest, *c))
            break;
    }
    *word = next;
    return NULL;
}

/* In words of a command line, behind the interpreter; "": none. */
static const char *find_script(const struct interpreter *in, const char *word)
{
    const char *script = NULL;

    while (!script && *word == '-') {
        if (strcmp(word, "-") == 0)
            return "";
        if (strcmp(word, "--") == 0)
            return find_base(next_word(word));
        if (word[1] == '-')
            word = next_word(word);
        else
            script = pass_options(in, &word);
    }
    return find_base(script ? script : word);
}

/* Two null bytes end the text: no word is cut, and the last is followed by an empty one. */
static bool read_cmdline(char words[CMDLINE_MAX])
{
    FILE *f = lift_open("/proc/self/cmdline");
    size_t n = f ? fread(words, 1, CMDLINE_MAX - 1, f) : 0;

    if (f)
        fclose(f);
    while (n > 0 && words[n - 1] != '\0')
        n--;
    words[n] = '\0';
    return n > 0;
}

void program_name(char *name, size_t size)
{
    const struct interpreter *in = find_interpreter(program_invocation_short_name);
    char comm[COMM_MAX], words[CMDLINE_MAX];
    const char *script = "";

    if (read_own_name(comm)) {
        snprintf(name, size, "%s", comm);
        return;
    }
    if (in && read_cmdline(words))
        script = find_script(in, next_word(words));
    snprintf(name, size, "%s%s%s", program_invocation_short_name, *script ? " " : "", script);
}
