#include "client/tools/npu-check/finding.h"

const char *const finding_names[FINDING_KINDS] = {
    [FINDING_RACE] = "race",
    [FINDING_UNINITIALISED] = "uninitialised",
    [FINDING_USE_AFTER_FREE] = "use-after-free",
    [FINDING_LEAK] = "leak",
    [FINDING_UNFINISHED] = "unfinished",
    [FINDING_EMPTY_WAIT] = "empty-wait",
    [FINDING_IGNORED] = "ignored",
};
