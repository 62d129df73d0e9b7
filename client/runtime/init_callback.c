#include "client/runtime/init_callback.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"

struct init_callback {
    struct init_callback *prev, *next;
    aclRegisterCallbackType type;
    aclInitCallbackFunc init; /* one of the two */
    aclFinalizeCallbackFunc finalize;
    void *data;
    uint64_t serial; /* in the order of registration */
    bool told;       /* of this aclInit */
};

/*
 * Both lists are under process->callback_lock. While the library is initialised there is a
 * configuration, which may be the empty text.
 */
static struct init_callback *at_init, *at_finalize;
static uint64_t last_serial;
static char *config;

__thread bool init_callback_finalizing;

/* --- lists --- */

static struct init_callback *find_callback(struct init_callback *list,
                                           const struct init_callback *like)
{
    struct init_callback *c;

    DL_FOREACH (list, c)
        if (c->type == like->type && c->init == like->init && c->finalize == like->finalize)
            return c;
    return NULL;
}

static bool type_is_taken(struct init_callback *list, aclRegisterCallbackType type)
{
    struct init_callback *c;

    DL_FOREACH (list, c)
        if (c->type == type)
            return type != ACL_REG_TYPE_OTHER;
    return false;
}

static int check_type(const char *function, aclRegisterCallbackType type)
{
    if ((unsigned)type <= ACL_REG_TYPE_ACL_RETR || type == ACL_REG_TYPE_OTHER)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: there is no type %d", function, (int)type);
}

/* *text: the configuration, if aclInit has been; freed by the caller. */
static int add_callback(const char *function, struct init_callback **list,
                        const struct init_callback *new, char **text)
{
    struct init_callback *c = malloc(sizeof(*c));
    int error = 0;

    if (!c)
        return error_no_memory(function);
    *c = *new;
    pthread_mutex_lock(&process->callback_lock);
    if (type_is_taken(*list, new->type)) {
        error =
            error_set(ACL_ERROR_INTERNAL_ERROR, "%s: type %d has a callback: unregister it first",
                      function, (int)new->type);
    } else {
        c->serial = ++last_serial;
        c->told = config != NULL;
        *text = config ? strdup(config) : NULL;
        DL_APPEND(*list, c);
    }
    pthread_mutex_unlock(&process->callback_lock);
    if (error != 0)
        free(c);
    return error;
}

static int remove_callback(const char *function, struct init_callback **list,
                           const struct init_callback *like)
{
    struct init_callback *c;

    pthread_mutex_lock(&process->callback_lock);
    c = find_callback(*list, like);
    if (c)
        DL_DELETE(*list, c);
    pthread_mutex_unlock(&process->callback_lock);
    free(c);
    if (c)
        return 0;
    return error_set(ACL_ERROR_INTERNAL_ERROR, "%s: this callback is not registered for type %d",
                     function, (int)like->type);
}

/* --- calls --- */

/* In this order; the other types are for other components, which the runtime does not call. */
static const aclRegisterCallbackType init_order[] = {ACL_REG_TYPE_ACL_MODEL,
                                                     ACL_REG_TYPE_ACL_OP_EXECUTOR,
                                                     ACL_REG_TYPE_ACL_DVPP, ACL_REG_TYPE_OTHER};
static const aclRegisterCallbackType finalize_order[] = {ACL_REG_TYPE_ACL_OP_COMPILER,
                                                         ACL_REG_TYPE_ACL_MODEL,
                                                         ACL_REG_TYPE_ACL_DVPP, ACL_REG_TYPE_OTHER};

#define ORDER_LENGTH (sizeof(init_order) / sizeof(init_order[0]))

/* The next one of a type that was not told yet. */
static bool take_untold(aclRegisterCallbackType type, struct init_callback *taken)
{
    struct init_callback *c;

    pthread_mutex_lock(&process->callback_lock);
    DL_FOREACH (at_init, c)
        if (c->type == type && !c->told)
            break;
    if (c) {
        c->told = true;
        *taken = *c;
    }
    pthread_mutex_unlock(&process->callback_lock);
    return c != NULL;
}

/* The next one of a type after a serial number. */
static bool take_next(aclRegisterCallbackType type, uint64_t serial, struct init_callback *taken)
{
    struct init_callback *c;

    pthread_mutex_lock(&process->callback_lock);
    DL_FOREACH (at_finalize, c)
        if (c->type == type && c->serial > serial)
            break;
    if (c)
        *taken = *c;
    pthread_mutex_unlock(&process->callback_lock);
    return c != NULL;
}

static void set_config(char *text)
{
    char *before;

    pthread_mutex_lock(&process->callback_lock);
    before = config;
    config = text; /* first: a child that is forked in between frees what it finds, too */
    pthread_mutex_unlock(&process->callback_lock);
    free(before);
}

CALLS_PROGRAM int init_callback_begin(const char *text)
{
    char *copy = strdup(text);
    struct init_callback c;

    if (!copy)
        return error_no_memory("aclInit");
    set_config(copy);
    for (size_t i = 0; i < ORDER_LENGTH; i++) {
        if (init_order[i] == ACL_REG_TYPE_ACL_OP_EXECUTOR && !text[0])
            continue;
        while (take_untold(init_order[i], &c)) {
            aclError error = c.init(text, strlen(text), c.data);

            if (error != 0)
                return error_set(error, "aclInit: a callback for type %d has failed", (int)c.type);
        }
    }
    return 0;
}

void init_callback_end(void)
{
    struct init_callback *c;

    pthread_mutex_lock(&process->callback_lock);
    DL_FOREACH (at_init, c)
        c->told = false;
    pthread_mutex_unlock(&process->callback_lock);
    set_config(NULL);
}

CALLS_PROGRAM int init_callback_finalize(const char *function)
{
    struct init_callback c;
    aclError error = 0;

    init_callback_finalizing = true;
    for (size_t i = 0; i < ORDER_LENGTH && error == 0; i++)
        for (c.serial = 0; error == 0 && take_next(finalize_order[i], c.serial, &c);)
            error = c.finalize(c.data);
    init_callback_finalizing = false;
    return error == 0 ? 0
                      : error_set(error,
                                  "%s: a callback for type %d has failed: call it again when that "
                                  "can be done",
                                  function, (int)c.type);
}

/* The lists are not freed: another thread of the parent may have been changing them. */
static void forget_all(void)
{
    at_init = at_finalize = NULL;
    free(config);
    config = NULL;
}

const struct part init_callback_part = {.fork_child = forget_all};

/* --- registration --- */

CALLS_PROGRAM aclError aclInitCallbackRegister(aclRegisterCallbackType type,
                                               aclInitCallbackFunc cbFunc, void *userData)
{
    CALL_SCOPE;
    struct init_callback new = {.type = type, .init = cbFunc, .data = userData};
    char *text = NULL;

    REQUIRE(cbFunc);
    RETURN_IF_ERROR(check_type(__func__, type));
    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(add_callback(__func__, &at_init, &new, &text));
    if (text)
        cbFunc(text, strlen(text), userData);
    free(text);
    return 0;
}

aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc)
{
    CALL_SCOPE;
    struct init_callback like = {.type = type, .init = cbFunc};

    REQUIRE(cbFunc);
    RETURN_IF_ERROR(check_type(__func__, type));
    RETURN_IF_ERROR(process_enter());
    return remove_callback(__func__, &at_init, &like);
}

aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc,
                                     void *userData)
{
    CALL_SCOPE;
    struct init_callback new = {.type = type, .finalize = cbFunc, .data = userData};
    char *text = NULL;

    REQUIRE(cbFunc);
    RETURN_IF_ERROR(check_type(__func__, type));
    RETURN_IF_ERROR(process_enter());
    RETURN_IF_ERROR(add_callback(__func__, &at_finalize, &new, &text));
    free(text);
    return 0;
}

aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc)
{
    CALL_SCOPE;
    struct init_callback like = {.type = type, .finalize = cbFunc};

    REQUIRE(cbFunc);
    RETURN_IF_ERROR(check_type(__func__, type));
    RETURN_IF_ERROR(process_enter());
    return remove_callback(__func__, &at_finalize, &like);
}
