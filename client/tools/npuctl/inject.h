/* The command line of `npuctl inject`. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/npud.pb-c.h"

/** Options of rules, by their names. */
#define INJECT_OPTIONS(X)                                                                          \
    X(KIND, "kind")                                                                                \
    X(SESSION, "session")                                                                          \
    X(DEVICE, "device")                                                                            \
    X(STREAM, "stream")                                                                            \
    X(NTH, "nth")                                                                                  \
    X(COUNT, "count")                                                                              \
    X(CODE, "code")                                                                                \
    X(PROBABILITY, "probability")                                                                  \
    X(SEED, "seed")

/** As getopt_long() returns them: beyond all characters, and enum task_option. */
#define INJECT_VALUE(NAME, name) INJECT_##NAME,
enum inject_option { INJECT_BEFORE = 0xffff, INJECT_OPTIONS(INJECT_VALUE) INJECT_END };
#define INJECT_LONG_OPTION(NAME, name) {name, required_argument, NULL, INJECT_##NAME},

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

/** Digits only, and a value from low to high. */
bool inject_parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *number);

/** The name of an option that was given ("--kind"), or NULL. */
const char *inject_option_given(const struct inject_options *options);

/**
 * The words after "inject", with the options. NULL, or what is wrong: text, and *name the word or
 * option it is about (NULL: none). The rule keeps pointers into the words. Without --seed a random
 * rule gets one.
 */
const char *inject_parse(char **words, int n, const struct inject_options *options,
                         struct inject_command *command, const char **name);
