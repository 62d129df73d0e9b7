/* What is on, and where it goes. */
#include "client/dump/dump.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "client/core/acl_config.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/process.h"
#include "client/dump/dump_file.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

#define FAILURE  ACL_ERROR_FAILURE
#define ARGS_MAX 4096 /* names and sizes of which there are files */

/* A kernel of which there is a file. */
struct seen {
    UT_hash_handle hh;
    char name[]; /* with its size */
};

static struct {
    pthread_mutex_t lock;
    bool initialised; /* aclmdlInitDump */
    uint32_t wanted;  /* by the configuration: bits of dump_on */
    cJSON *data;      /* the object `dump` of a dump of data; NULL: none is on */
    char root[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    /* acldumpGetPath: what it has returned stays there */
    char path[OVERFLOW_DUMP + 1][ACL_DUMP_MAX_FILE_PATH_LENGTH];
    char args_path[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    struct seen *seen;
} dump = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Atomic uint32_t dump_on;

static __attribute__((constructor)) void know_lock(void)
{
    lock_order_know(&dump.lock, LOCK_DUMP);
}

/* --- the configuration --- */

#define INVALID ACL_ERROR_INVALID_DUMP_CONFIG

struct wanted {
    uint32_t on;
    const char *path; /* dump_path; "": none */
    const cJSON *object;
};

static int error_value(const char *function, const char *key, const char *what)
{
    return error_set(INVALID, "%s: dump.%s must be %s", function, key, what);
}

/* Keys whose value is one of some words. */
static const struct key {
    const char *name, *words; /* with a comma before and behind each */
    const char *told;
} keys[] = {
    {"dump_mode", ",input,output,all,", "\"input\", \"output\" or \"all\""},
    {"dump_op_switch", ",on,off,", "\"on\" or \"off\""},
    {"dump_data", ",tensor,stats,", "\"tensor\" or \"stats\""},
    {"dump_debug", ",on,off,", "\"on\" or \"off\""},
    {"dump_kernel_data", ",all,printf,tensor,assert,timestamp,",
     "\"all\", \"printf\", \"tensor\", \"assert\", \"timestamp\", or several with commas"},
    {"dump_scene",
     ",aic_err_brief_dump,aic_err_norm_dump,aic_err_detail_dump,lite_exception,watcher,",
     "\"aic_err_brief_dump\", \"aic_err_norm_dump\", \"aic_err_detail_dump\", "
     "\"lite_exception\" or \"watcher\""},
};

static bool is_word(const char *words, const char *word, size_t size)
{
    char with_commas[64];

    if (size == 0 || size > sizeof(with_commas) - 3)
        return false;
    snprintf(with_commas, sizeof(with_commas), ",%.*s,", (int)size, word);
    return strstr(words, with_commas) != NULL;
}

static bool are_words(const struct key *k, const char *value)
{
    bool several = strcmp(k->name, "dump_kernel_data") == 0;
    const char *end;

    for (;; value = end + 1) {
        end = several ? strchrnul(value, ',') : value + strlen(value);
        if (!is_word(k->words, value, (size_t)(end - value)))
            return false;
        if (!*end)
            return true;
    }
}

static int check_words(const char *function, const cJSON *object)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, keys[i].name);

        if (item && (!cJSON_IsString(item) || !are_words(&keys[i], item->valuestring)))
            return error_value(function, keys[i].name, keys[i].told);
    }
    return 0;
}

/* An array of objects, of which each has a model_name, if anything; layers are strings. */
static int check_list(const char *function, const cJSON *list)
{
    const cJSON *model, *layer;

    if (!list)
        return 0;
    if (!cJSON_IsArray(list))
        return error_value(function, "dump_list", "an array");
    cJSON_ArrayForEach (model, list) {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(model, "model_name");
        const cJSON *layers = cJSON_GetObjectItemCaseSensitive(model, "layer");

        if (!cJSON_IsObject(model) || (name && !cJSON_IsString(name)) ||
            (layers && !cJSON_IsArray(layers)))
            return error_value(function, "dump_list", "an array of models: model_name, layer");
        cJSON_ArrayForEach (layer, layers)
            if (!cJSON_IsString(layer))
                return error_value(function, "dump_list", "an array of models with named layers");
    }
    return 0;
}

/* "0", "1|3-5", with blanks nowhere: steps and ranges of them. */
static bool are_steps(const char *text)
{
    bool digit = false;

    for (; *text; text++) {
        if (*text >= '0' && *text <= '9')
            digit = true;
        else if ((*text == '|' || *text == '-') && digit)
            digit = false;
        else
            return false;
    }
    return digit;
}

static bool is_text(const cJSON *object, const char *key, const char *text)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

    return value && strcmp(value, text) == 0;
}

/* Which exception dump this scene is; 0: none. */
static uint32_t scene_bit(const char *scene)
{
    if (!scene)
        return 0;
    if (strcmp(scene, "aic_err_brief_dump") == 0 || strcmp(scene, "lite_exception") == 0)
        return 1u << AIC_ERR_BRIEF_DUMP;
    if (strcmp(scene, "aic_err_norm_dump") == 0)
        return 1u << AIC_ERR_NORM_DUMP;
    return strcmp(scene, "aic_err_detail_dump") == 0 ? 1u << AIC_ERR_DETAIL_DUMP : 0;
}

/* A dump of failures, of overflows, or of data: one of them. */
static int choose_kind(const char *function, const cJSON *object, struct wanted *w)
{
    const cJSON *scene = cJSON_GetObjectItemCaseSensitive(object, "dump_scene");
    bool debug = is_text(object, "dump_debug", "on");
    bool data = cJSON_GetObjectItemCaseSensitive(object, "dump_list") ||
                is_text(object, "dump_op_switch", "on");

    if (scene && debug)
        return error_set(INVALID, "%s: dump has both dump_scene and dump_debug: choose one",
                         function);
    if (scene)
        w->on = scene_bit(scene->valuestring);
    else if (debug)
        w->on = 1u << OVERFLOW_DUMP;
    else if (data)
        w->on = 1u << DATA_DUMP;
    if (!scene && w->on != 0 && !w->path[0])
        return error_value(function, "dump_path", "the folder of the dump");
    return 0;
}

static int read_dump(const char *function, const cJSON *object, struct wanted *w)
{
    const cJSON *path = cJSON_GetObjectItemCaseSensitive(object, "dump_path");
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(object, "dump_step");

    if (!cJSON_IsObject(object))
        return error_set(INVALID, "%s: dump must be an object", function);
    if (path && (!cJSON_IsString(path) || !path->valuestring[0] ||
                 strlen(path->valuestring) >= ACL_DUMP_MAX_FILE_PATH_LENGTH / 2))
        return error_value(function, "dump_path", "a path of at most 2047 bytes");
    if (step && (!cJSON_IsString(step) || !are_steps(step->valuestring)))
        return error_value(function, "dump_step", "steps, as \"0|2|5-9\"");
    RETURN_IF_ERROR(check_words(function, object));
    RETURN_IF_ERROR(check_list(function, cJSON_GetObjectItemCaseSensitive(object, "dump_list")));
    w->path = path ? path->valuestring : "";
    w->object = object;
    return choose_kind(function, object, w);
}

/* The folder that all dumps are below: the first that is set counts. */
static const char *choose_root(const char *configured)
{
    static const char *const names[] = {"NPU_COLLECT_PATH", "ASCEND_WORK_PATH"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = secure_getenv(names[i]);

        if (value && value[0] && strlen(value) < ACL_DUMP_MAX_FILE_PATH_LENGTH / 2)
            return value;
    }
    return configured[0] ? configured : ".";
}

/* Under the lock. */
static void put_in_force(const struct wanted *w)
{
    dump.wanted = w->on;
    cJSON_Delete(dump.data);
    dump.data = w->on & 1u << DATA_DUMP ? cJSON_Duplicate(w->object, true) : NULL;
    snprintf(dump.root, sizeof(dump.root), "%s", choose_root(w->path));
    /* release: the root is there; arguments are a matter of their own */
    atomic_store(&dump_on, (atomic_load(&dump_on) & DUMP_ARGS) | w->on);
}

static int configure_object(const char *function, const cJSON *object)
{
    struct wanted w = {.path = ""};

    if (object)
        RETURN_IF_ERROR(read_dump(function, object, &w));
    pthread_mutex_lock(&dump.lock);
    put_in_force(&w);
    pthread_mutex_unlock(&dump.lock);
    return 0;
}

int dump_configure(const char *text)
{
    cJSON *root = text && text[0] ? cJSON_Parse(text) : NULL;
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, "dump");
    struct wanted by_environment = {.on = scene_bit(secure_getenv("ASCEND_DUMP_SCENE")),
                                    .path = ""};
    int error = 0;

    if (object) {
        error = configure_object("aclInit", object);
    } else if (by_environment.on != 0) {
        pthread_mutex_lock(&dump.lock);
        put_in_force(&by_environment);
        pthread_mutex_unlock(&dump.lock);
    }
    cJSON_Delete(root);
    return error;
}

static void forget_seen(void)
{
    struct seen *s = dump.seen, *next;

    HASH_CLEAR(hh, dump.seen);
    for (; s; s = next) {
        next = s->hh.next;
        free(s);
    }
}

/* Under the lock. */
static void stop_all(void)
{
    atomic_store(&dump_on, 0);
    dump.wanted = 0;
    cJSON_Delete(dump.data);
    dump.data = NULL;
    dump.initialised = false;
    forget_seen();
}

void dump_unconfigure(void)
{
    pthread_mutex_lock(&dump.lock);
    stop_all();
    pthread_mutex_unlock(&dump.lock);
}

/* --- of models --- */

static int check_initialised(const char *function)
{
    bool initialised;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&process->lock);
    initialised = process->init_count > 0;
    pthread_mutex_unlock(&process->lock);
    return initialised ? 0 : error_set(ACL_ERROR_UNINITIALIZE, "%s: call aclInit first", function);
}

static int error_not_initialised(const char *function)
{
    return error_set(ACL_ERROR_DUMP_NOT_RUN, "%s: call aclmdlInitDump first", function);
}

aclError aclmdlInitDump(void)
{
    CALL_SCOPE;
    bool again;

    RETURN_IF_ERROR(check_initialised(__func__));
    pthread_mutex_lock(&dump.lock);
    again = dump.initialised;
    dump.initialised = true;
    pthread_mutex_unlock(&dump.lock);
    return again ? error_set(ACL_ERROR_REPEAT_INITIALIZE,
                             "%s: was called already: aclmdlFinalizeDump undoes it", __func__)
                 : 0;
}

static bool model_dump_is_on(void)
{
    bool on;

    pthread_mutex_lock(&dump.lock);
    on = dump.initialised;
    pthread_mutex_unlock(&dump.lock);
    return on;
}

aclError aclmdlSetDump(const char *dumpCfgPath)
{
    CALL_SCOPE;
    cJSON *root = NULL;
    int error;

    RETURN_IF_ERROR(check_initialised(__func__));
    if (!model_dump_is_on())
        return error_not_initialised(__func__);
    REQUIRE(dumpCfgPath);
    RETURN_IF_ERROR(acl_config_parse_file(__func__, dumpCfgPath, &root));
    if (!root)
        return 0; /* the file says nothing */
    error = configure_object(__func__, cJSON_GetObjectItemCaseSensitive(root, "dump"));
    cJSON_Delete(root);
    return error;
}

aclError aclmdlFinalizeDump(void)
{
    CALL_SCOPE;
    bool was;

    RETURN_IF_ERROR(check_initialised(__func__));
    pthread_mutex_lock(&dump.lock);
    was = dump.initialised;
    if (was)
        stop_all();
    pthread_mutex_unlock(&dump.lock);
    return was ? 0 : error_not_initialised(__func__);
}

/* --- of arguments --- */

static int start_args(const char *function, const char *path)
{
    char folder[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    int r;

    if (dump_is_on(DUMP_ARGS))
        return error_set(FAILURE, "%s: was called already: aclopStopDumpArgs undoes it", function);
    if (snprintf(folder, sizeof(folder), "%s/", path) >= (int)sizeof(folder) / 2)
        return error_set(FAILURE, "%s: path is longer than 2047 bytes", function);
    r = dump_make_folders(folder);
    if (r == 0 && access(path, W_OK | X_OK) != 0)
        r = errno;
    if (r != 0)
        return error_set(FAILURE, "%s: %s cannot be written: %s", function, path, strerror(r));
    snprintf(dump.args_path, sizeof(dump.args_path), "%s", path);
    atomic_fetch_or(&dump_on, DUMP_ARGS);
    return 0;
}

aclError aclopStartDumpArgs(uint32_t dumpType, const char *path)
{
    CALL_SCOPE;
    int error;

    RETURN_IF_ERROR(process_enter());
    REQUIRE_OR(FAILURE, path);
    if (!(dumpType & ACL_OP_DUMP_OP_AICORE_ARGS) || !path[0])
        return error_set(FAILURE, "%s: %s", __func__,
                         path[0] ? "dumpType lacks ACL_OP_DUMP_OP_AICORE_ARGS" : "path is empty");
    pthread_mutex_lock(&dump.lock);
    error = start_args(__func__, path);
    pthread_mutex_unlock(&dump.lock);
    return error;
}

aclError aclopStopDumpArgs(uint32_t dumpType)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(process_enter());
    if (!(dumpType & ACL_OP_DUMP_OP_AICORE_ARGS))
        return 0;
    pthread_mutex_lock(&dump.lock);
    atomic_fetch_and(&dump_on, ~DUMP_ARGS);
    forget_seen();
    pthread_mutex_unlock(&dump.lock);
    return 0;
}

/* Under the lock. False: there is a file of it, or there are too many. */
static bool is_new(const char *key)
{
    struct seen *s;

    HASH_FIND_STR(dump.seen, key, s);
    if (s || HASH_COUNT(dump.seen) >= ARGS_MAX)
        return false;
    s = calloc(1, sizeof(*s) + strlen(key) + 1);
    if (!s)
        return false;
    strcpy(s->name, key);
    HASH_ADD_STR(dump.seen, name, s);
    return true;
}

bool dump_take_args(const char *name, size_t size, char *path, size_t path_size)
{
    char key[512];
    bool first = false;

    snprintf(key, sizeof(key), "%.450s.%zu", name, size);
    for (char *c = key; (c = strchr(c, '/'));)
        *c = '_';
    pthread_mutex_lock(&dump.lock);
    if (dump_is_on(DUMP_ARGS) && is_new(key))
        first = snprintf(path, path_size, "%s/%s.args", dump.args_path, key) < (int)path_size;
    pthread_mutex_unlock(&dump.lock);
    return first;
}

/* --- of data --- */

bool dump_take_data(const struct dump_kernel *k, const char *model_name, enum dump_when when,
                    char *root, bool *with_bytes)
{
    bool wanted;

    pthread_mutex_lock(&dump.lock);
    wanted = dump.data && dump_data_has(dump.data, k, model_name, when);
    *with_bytes = !is_text(dump.data, "dump_data", "stats");
    strcpy(root, dump.root);
    pthread_mutex_unlock(&dump.lock);
    return wanted;
}

/* --- pieces and paths --- */

aclError acldumpRegCallback(int32_t (*const messageCallback)(const acldumpChunk *, int32_t),
                            int32_t flag)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(process_enter());
    REQUIRE_OR(FAILURE, messageCallback);
    if (flag != 0)
        return error_set(FAILURE, "%s: flag is %d, and must be 0", __func__, flag);
    dump_file_set_callback(messageCallback);
    return 0;
}

void acldumpUnregCallback(void)
{
    CALL_SCOPE;

    dump_file_set_callback(NULL);
}

bool dump_exception_folder(int32_t device, char *path, size_t size)
{
    int n;

    pthread_mutex_lock(&dump.lock);
    n = snprintf(path, size, "%s/extra-info/data-dump/%d/", dump.root, device);
    pthread_mutex_unlock(&dump.lock);
    return n > 0 && (size_t)n < size;
}

const char *acldumpGetPath(acldumpType dumpType)
{
    CALL_SCOPE;
    char *path = NULL;

    if (process_enter() != 0)
        return NULL;
    if (dumpType < AIC_ERR_BRIEF_DUMP || dumpType > OVERFLOW_DUMP || !dump_is_on(1u << dumpType)) {
        error_set(ACL_ERROR_INVALID_PARAM, "%s: no dump of type %d is on", __func__, (int)dumpType);
        return NULL;
    }
    pthread_mutex_lock(&dump.lock);
    path = dump.path[dumpType];
    snprintf(path, sizeof(dump.path[0]), "%s", dump.root);
    pthread_mutex_unlock(&dump.lock);
    return path;
}

/* --- life --- */

static void forget_all(void)
{
    forget_seen();
    cJSON_Delete(dump.data);
    dump_file_set_callback(NULL);
    atomic_store(&dump_on, 0);
    memset(&dump, 0, sizeof(dump));
    lock_init(&dump.lock, LOCK_DUMP);
}

const struct part dump_part = {.fork_child = forget_all};
