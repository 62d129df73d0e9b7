#include "client/tools/npuctl/inject.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "proto/wire/error_name.h"
#include "proto/util/random.h"

/* In the order of enum inject_option. */
static const char *const option_names[] = {"--kind",   "--session",     "--device",
                                           "--stream", "--nth",         "--count",
                                           "--code",   "--probability", "--seed"};
static_assert(sizeof(option_names) / sizeof(option_names[0]) == INJECT_END - INJECT_KIND,
              "a name each");
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
static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 && *number >= low &&
           *number <= high;
}

/* An option that wants a number; unchanged when it is not given. */
static bool read_number(const struct inject_options *o, enum inject_option option, uint64_t low,
                        uint64_t high, uint64_t *number)
{
    const char *text = value_of(o, option);

    return !text || parse_number(text, low, high, number);
}

static bool read_id(const struct inject_options *o, enum inject_option option, int32_t *id)
{
    uint64_t number = 0;

    if (!read_number(o, option, 0, INT32_MAX, &number))
        return false;
    *id = value_of(o, option) ? (int32_t)number : -1;
    return true;
}

static bool read_code(const char *text, int32_t *code)
{
    uint64_t number;

    *code = ACL_ERROR_RT_INTERNAL_ERROR;
    if (!text)
        return true;
    if (parse_number(text, 100000, 599999, &number))
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
    *name = value_of(o, INJECT_SESSION);
    if (!read_number(o, INJECT_SESSION, 1, UINT64_MAX, &rule->session))
        return "--session wants the number of a session, not";
    *name = value_of(o, INJECT_DEVICE);
    if (!read_id(o, INJECT_DEVICE, &rule->device))
        return "--device wants the number of a device, not";
    *name = value_of(o, INJECT_STREAM);
    if (!read_id(o, INJECT_STREAM, &rule->stream))
        return "--stream wants the number of a stream, not";
    *name = value_of(o, INJECT_NTH);
    if (!read_number(o, INJECT_NTH, 1, UINT64_MAX, &rule->nth))
        return "--nth wants a number from 1 on, not";
    *name = value_of(o, INJECT_COUNT);
    if (!read_number(o, INJECT_COUNT, 1, UINT64_MAX, &rule->count))
        return "--count wants a number from 1 on, not";
    *name = value_of(o, INJECT_CODE);
    if (!read_code(*name, &rule->code))
        return "--code wants an ACL error code or its name, not";
    *name = value_of(o, INJECT_PROBABILITY);
    if (!read_probability(*name, &rule->probability))
        return "--probability wants a number above 0 and at most 1, not";
    *name = value_of(o, INJECT_SEED);
    if (!read_number(o, INJECT_SEED, 0, UINT64_MAX, &rule->seed))
        return "--seed wants a number, not";
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
    if (n == 1 && !parse_number(words[0], 1, UINT64_MAX, &command->clear))
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
