#include "client/tools/npuctl/inject.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "proto/wire/error_name.h"
#include "proto/util/random.h"

#define OPTION_NAME(NAME, name) "--" name,
static const char *const option_names[] = {INJECT_OPTIONS(OPTION_NAME)};
#define N_OPTIONS (sizeof(option_names) / sizeof(option_names[0]))

static const char *value_of(const struct inject_options *o, enum inject_option option)
{
    return o->value[option - INJECT_KIND];
}

const char *inject_option_given(const struct inject_options *options)
{
    for (unsigned i = 0; i < N_OPTIONS; i++)
        if (options->value[i])
            return option_names[i];
    return NULL;
}

/* Digits only: strtoull() takes signs and spaces, too. */
bool inject_parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 && *number >= low &&
           *number <= high;
}

/* Options that want a number: the id of something, or any, from `low` on. */
static const struct number_option {
    enum inject_option option;
    bool id;
    uint64_t low;
    size_t offset; /* in Npud__Inject: int32_t for an id, else uint64_t */
    const char *wants;
} number_options[] = {
    {INJECT_SESSION, false, 1, offsetof(Npud__Inject, session),
     "--session wants the number of a session, not"},
    {INJECT_DEVICE, true, 0, offsetof(Npud__Inject, device),
     "--device wants the number of a device, not"},
    {INJECT_STREAM, true, 0, offsetof(Npud__Inject, stream),
     "--stream wants the number of a stream, not"},
    {INJECT_NTH, false, 1, offsetof(Npud__Inject, nth), "--nth wants a number from 1 on, not"},
    {INJECT_COUNT, false, 1, offsetof(Npud__Inject, count),
     "--count wants a number from 1 on, not"},
    {INJECT_SEED, false, 0, offsetof(Npud__Inject, seed), "--seed wants a number, not"},
};

/* The rule is unchanged without a text. */
static bool read_number(const struct number_option *o, const char *text, Npud__Inject *rule)
{
    void *where = (char *)rule + o->offset;
    uint64_t number;

    if (!text)
        return true;
    if (!inject_parse_number(text, o->low, o->id ? INT32_MAX : UINT64_MAX, &number))
        return false;
    if (o->id)
        *(int32_t *)where = (int32_t)number;
    else
        *(uint64_t *)where = number;
    return true;
}

static bool read_code(const char *text, int32_t *code)
{
    uint64_t number;

    *code = ACL_ERROR_RT_INTERNAL_ERROR;
    if (!text)
        return true;
    if (inject_parse_number(text, 100000, 599999, &number))
        *code = (int32_t)number;
    else
        *code = error_name_find(text);
    return *code != 0;
}

static bool read_probability(const char *text, double *probability)
{
    char *end;

    *probability = text ? strtod(text, &end) : 0;
    return !text || (end != text && !*end && *probability > 0 && *probability <= 1);
}

/* What is wrong with the value of an option, or NULL; *name: the value. */
static const char *read_values(const struct inject_options *o, Npud__Inject *rule,
                               const char **name)
{
    for (size_t i = 0; i < sizeof(number_options) / sizeof(number_options[0]); i++) {
        *name = value_of(o, number_options[i].option);
        if (!read_number(&number_options[i], *name, rule))
            return number_options[i].wants;
    }
    *name = value_of(o, INJECT_CODE);
    if (!read_code(*name, &rule->code))
        return "--code wants an ACL error code or its name, not";
    *name = value_of(o, INJECT_PROBABILITY);
    if (!read_probability(*name, &rule->probability))
        return "--probability wants a number above 0 and at most 1, not";
    if (value_of(o, INJECT_KIND))
        rule->kind = (char *)value_of(o, INJECT_KIND);
    return NULL;
}

static const char *parse_rule(const struct inject_options *o, Npud__Inject *rule, const char **name)
{
    const char *wrong = read_values(o, rule, name);

    if (wrong)
        return wrong;
    *name = NULL;
    if (value_of(o, INJECT_CODE) && rule->action != NPUD__INJECT__ACTION__FAIL)
        return "--code goes with inject fail";
    if (value_of(o, INJECT_COUNT) && rule->action == NPUD__INJECT__ACTION__LOSE_DEVICE)
        return "--count does not go with inject lose-device";
    if (value_of(o, INJECT_SEED) && !value_of(o, INJECT_PROBABILITY))
        return "--seed goes with --probability";
    if (value_of(o, INJECT_PROBABILITY) && !value_of(o, INJECT_SEED) &&
        !random_fill(&rule->seed, sizeof(uint32_t)))
        return "no random seed can be had; give one with --seed";
    return NULL;
}

static const char *parse_clear(char **words, int n, struct inject_command *command,
                               const char **name)
{
    *name = n > 1 ? words[1] : n > 0 ? words[0] : NULL;
    if (n > 1)
        return "unexpected argument";
    if (n == 1 && !inject_parse_number(words[0], 1, UINT64_MAX, &command->clear))
        return "no number of a rule:";
    return NULL;
}

const char *inject_parse(char **words, int n, const struct inject_options *options,
                         struct inject_command *command, const char **name)
{
    static const struct {
        const char *word;
        enum inject_verb verb;
        Npud__Inject__Action action;
    } verbs[] = {
        {"fail", INJECT_VERB_SET, NPUD__INJECT__ACTION__FAIL},
        {"stall", INJECT_VERB_SET, NPUD__INJECT__ACTION__STALL},
        {"lose-device", INJECT_VERB_SET, NPUD__INJECT__ACTION__LOSE_DEVICE},
        {"list", INJECT_VERB_LIST, 0},
        {"clear", INJECT_VERB_CLEAR, 0},
    };
    unsigned v = 0;

    *command = (struct inject_command){.rule = NPUD__INJECT__INIT};
    command->rule.device = command->rule.stream = -1; /* any */
    *name = n > 0 ? words[0] : NULL;
    if (n == 0)
        return "inject needs one of fail, stall, lose-device, list, clear";
    while (v < sizeof(verbs) / sizeof(verbs[0]) && strcmp(verbs[v].word, words[0]) != 0)
        v++;
    if (v == sizeof(verbs) / sizeof(verbs[0]))
        return "inject takes fail, stall, lose-device, list or clear, not";
    command->verb = verbs[v].verb;
    command->rule.action = verbs[v].action;
    if (command->verb != INJECT_VERB_SET && (*name = inject_option_given(options)))
        return "this goes with inject fail, stall and lose-device:";
    if (command->verb == INJECT_VERB_CLEAR)
        return parse_clear(words + 1, n - 1, command, name);
    *name = n > 1 ? words[1] : NULL;
    if (n > 1)
        return "unexpected argument";
    return command->verb == INJECT_VERB_SET ? parse_rule(options, &command->rule, name) : NULL;
}
