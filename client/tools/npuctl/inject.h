/* The command line of `npuctl inject`. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/npud.pb-c.h"

/** Options of rules, as getopt_long() returns them: beyond all characters. */
enum inject_option {
    INJECT_KIND = 256,
    INJECT_SESSION,
    INJECT_DEVICE,
    INJECT_STREAM,
    INJECT_NTH,
    INJECT_COUNT,
    INJECT_CODE,
    INJECT_PROBABILITY,
    INJECT_SEED,
    INJECT_END
};
#define INJECT_LONG_OPTIONS                                                                        \
    {"kind", required_argument, NULL, INJECT_KIND},                                                \
        {"session", required_argument, NULL, INJECT_SESSION},                                      \
        {"device", required_argument, NULL, INJECT_DEVICE},                                        \
        {"stream", required_argument, NULL, INJECT_STREAM},                                        \
        {"nth", required_argument, NULL, INJECT_NTH},                                              \
        {"count", required_argument, NULL, INJECT_COUNT},                                          \
        {"code", required_argument, NULL, INJECT_CODE},                                            \
        {"probability", required_argument, NULL, INJECT_PROBABILITY},                              \
    {                                                                                              \
        "seed", required_argument, NULL, INJECT_SEED                                               \
    }

/** What was given of them: NULL, or the value. */
struct inject_options {
    const char *value[INJECT_END - INJECT_KIND];
};

enum inject_verb {
    INJECT_VERB_SET,
    INJECT_VERB_LIST,
    INJECT_VERB_CLEAR,
};

struct inject_command {
    enum inject_verb verb;
    Npud__Inject rule; /* SET */
    uint64_t clear;    /* CLEAR: a rule, or 0: all */
};

/** The name of an option that was given ("--kind"), or NULL. */
const char *inject_option_given(const struct inject_options *options);

/**
 * The words after "inject", with the options. NULL, or what is wrong: text, and *name the word or
 * option it is about (NULL: none). The rule keeps pointers into the words. Without --seed a random
 * rule gets one.
 */
const char *inject_parse(char **words, int n, const struct inject_options *options,
                         struct inject_command *command, const char **name);
