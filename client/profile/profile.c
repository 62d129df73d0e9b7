/* Starting and stopping: who collects, and what. */
#include "client/profile/profile.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/process.h"
#include "client/core/program_name.h"
#include "client/core/thread.h"
#include "client/runtime/device.h"

struct aclprofConfig {
    uint32_t devices; /* npud's numbers, a bit each */
    aclprofAicoreMetrics metrics;
    uint64_t data; /* ACL_PROF_* */
    struct aclprofConfig *prev, *next;
};

/* Who has begun the session that there is. */
enum owner { OWNER_NONE, OWNER_PROGRAM, OWNER_OUTSIDE };

/* The devices that the program sees; none if npud cannot be asked. */
struct seen {
    uint32_t devices; /* npud's numbers, a bit each */
    uint32_t user_ids[DEVICES_MAX];
};

static struct {
    pthread_mutex_t lock;
    enum owner owner;
    char *path;   /* that the session writes below */
    char *folder; /* of the session; NULL: not made yet */
    bool runs;    /* `running` is collected */
    struct aclprofConfig running;
    struct profile_settings settings;
    struct aclprofConfig *configs; /* of the program: those that are not destroyed */
    uint32_t sessions, starts;     /* so far */
    struct seen seen;              /* devices, when the latest start was */
} profile = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct collecting collecting;
struct profile_files profile_files;

#define DATA_KNOWN                                                                                 \
    (ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_AICORE_METRICS | ACL_PROF_AICPU |            \
     ACL_PROF_L2CACHE | ACL_PROF_HCCL_TRACE | ACL_PROF_TRAINING_TRACE | ACL_PROF_MSPROFTX |        \
     ACL_PROF_RUNTIME_API | ACL_PROF_GE_API_L0 | ACL_PROF_TASK_TIME_L0 | ACL_PROF_TASK_MEMORY |    \
     ACL_PROF_TASK_TIME_L2 | ACL_PROF_OP_ATTR | ACL_PROF_TASK_TIME_L3 | ACL_PROF_GE_API_L1 |       \
     ACL_PROF_API_STATS | ACL_PROF_AICORE_SHAPE)

/* Any of these: times of tasks. */
#define DATA_TIMES                                                                                 \
    (ACL_PROF_TASK_TIME | ACL_PROF_TASK_TIME_L0 | ACL_PROF_TASK_TIME_L2 | ACL_PROF_TASK_TIME_L3 |  \
     ACL_PROF_TRAINING_TRACE)

/* Any of these: calls of the interface, which has one layer. */
#define DATA_CALLS (ACL_PROF_ACL_API | ACL_PROF_RUNTIME_API)

/* Without the lock: may connect. */
static void find_devices(const char *function, struct seen *seen)
{
    struct error_saved ignored;
    struct session *s;
    uint32_t device;
    int error;

    *seen = (struct seen){0};
    error_save(&ignored);
    s = session_get(function, &error);
    for (uint32_t user_id = 0; s && user_id < DEVICES_MAX; user_id++)
        if (device_from_user_id(s, user_id, &device)) {
            seen->devices |= UINT32_C(1) << device;
            seen->user_ids[device] = user_id;
        }
    error_save_end(&ignored);
}

/* --- the folder --- */

/* Each folder of the path that is missing. 0, or an errno. */
static int make_folders(const char *path)
{
    char *part = strdup(path), *at = part;
    int r = 0;

    if (!part)
        return ENOMEM;
    while (r == 0 && at) {
        at = strchr(at + 1, '/');
        if (at)
            *at = '\0';
        if (part[0] && mkdir(part, 0750) != 0 && errno != EEXIST && errno != EISDIR)
            r = errno;
        if (at)
            *at = '/';
    }
    free(part);
    if (r == 0 && access(path, W_OK | X_OK) != 0)
        r = errno;
    return r;
}

/* PROF_<6 digits>_<time with milliseconds>_<8 digits of the pid and 8 letters>. */
static char *make_folder_name(const char *path, uint32_t number)
{
    unsigned char random[8] = {0};
    char letters[9] = "", when[32] = "", *name;
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    strftime(when, sizeof(when), "%Y%m%d%H%M%S", &tm);
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        memcpy(random, &now.tv_nsec, sizeof(now.tv_nsec));
    for (unsigned i = 0; i < 8; i++)
        letters[i] = (char)('A' + random[i] % 26);
    return asprintf(&name, "%s/PROF_%06u_%s%03ld_%08d%s", path, number, when, now.tv_nsec / 1000000,
                    (int)getpid(), letters) < 0
               ? NULL
               : name;
}

/* Of the session, with its first start. 0, or an errno. */
static int make_folder(void)
{
    int r;

    if (profile.folder)
        return 0;
    profile.folder = make_folder_name(profile.path, ++profile.sessions);
    if (!profile.folder)
        return ENOMEM;
    r = mkdir(profile.folder, 0750) == 0 ? 0 : errno;
    if (r != 0) {
        free(profile.folder);
        profile.folder = NULL;
        return r;
    }
    r = profile_file_begin(&profile_files.host, profile.folder, "host", profile.settings.limit);
    for (uint32_t d = 0; d < DEVICES_MAX; d++) {
        char name[32];

        snprintf(name, sizeof(name), "device_%u", profile.seen.user_ids[d]);
        if (r == 0)
            r = profile_file_begin(&profile_files.device[d], profile.folder, name,
                                   profile.settings.limit);
    }
    return r;
}

/* --- calls --- */

void profile_call(const char *function, uint64_t begin_ns, uint64_t end_ns)
{
    profile_file_put(&profile_files.host,
                     "\"tid\":%u,\"ph\":\"X\",\"cat\":\"call\",\"name\":\"%s\","
                     "\"ts\":" PROFILE_TIME ",\"dur\":" PROFILE_TIME,
                     thread_self()->tid, function, PROFILE_US(begin_ns),
                     PROFILE_US(end_ns - begin_ns));
}

static int error_folder(const char *function, const char *path, int r)
{
    return error_set(ACL_ERROR_INVALID_FILE, "%s: %s cannot be written: %s", function, path,
                     strerror(r));
}

/* --- sessions --- */

static int check_no_subscription(const char *function)
{
    return profile_has_subscriptions()
               ? error_set(ACL_ERROR_PROF_API_CONFLICT,
                           "%s: models are subscribed to: aclprofModelUnSubscribe ends that",
                           function)
               : 0;
}

static int begin_session(const char *function, enum owner owner, const char *path)
{
    int r;

    RETURN_IF_ERROR(check_no_subscription(function));
    r = make_folders(path);
    if (r != 0)
        return error_folder(function, path, r);
    profile.path = strdup(path);
    if (!profile.path)
        return error_no_memory(function);
    profile.owner = owner;
    return 0;
}

/* Where files go when the program has not said so. */
static const char *default_path(void)
{
    const char *path = secure_getenv("ACL_PROF_PATH");

    return path && path[0] ? path : ".";
}

static void name_process(struct profile_file *f, const char *what)
{
    char quoted[PROFILE_QUOTED(256)], text[256], name[PROGRAM_NAME_MAX];

    program_name(name, sizeof(name));
    snprintf(text, sizeof(text), "%s, %s", name, what);
    profile_file_put(f, "\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":%s}",
                     profile_quote(quoted, text));
}

static void name_files(uint32_t devices)
{
    char text[32];

    if (profile_file_is_empty(&profile_files.host))
        name_process(&profile_files.host, "host");
    for (uint32_t d = 0; d < DEVICES_MAX; d++) {
        snprintf(text, sizeof(text), "device %u", profile.seen.user_ids[d]);
        if ((devices >> d & 1) && profile_file_is_empty(&profile_files.device[d]))
            name_process(&profile_files.device[d], text);
    }
}

/* Writes, in all files: 0, or the first errno. */
static int flush_files(int (*flush)(struct profile_file *f))
{
    int first = flush(&profile_files.host);

    for (uint32_t d = 0; d < DEVICES_MAX; d++) {
        int r = flush(&profile_files.device[d]);

        if (first == 0)
            first = r;
    }
    return first;
}

static int start_running(const char *function, const struct aclprofConfig *c)
{
    int r = make_folder();

    if (r != 0)
        return error_folder(function, profile.path, r);
    name_files(c->devices);
    r = flush_files(profile_file_flush);
    if (r != 0)
        return error_folder(function, profile.folder, r);
    profile.running = *c;
    profile.runs = true;
    if (++profile.starts == 0)
        profile.starts++;
    /* release: the files are there. */
    if (c->data & ACL_PROF_MSPROFTX)
        atomic_store_explicit(&collecting.stamps, profile.starts, memory_order_release);
    if (c->data & DATA_CALLS)
        api_call_watch(API_CALL_PROFILE, true);
    if (c->data & DATA_TIMES) {
        atomic_store_explicit(&collecting.devices, c->devices, memory_order_release);
        profile_streams_begin();
    }
    return 0;
}

static void stop_collecting(bool wait)
{
    profile.runs = false;
    atomic_store(&collecting.stamps, 0);
    atomic_store(&collecting.devices, 0);
    api_call_watch(API_CALL_PROFILE, false);
    profile_streams_end(wait);
}

static int stop_running(const char *function)
{
    int r;

    if (!profile.runs)
        return 0;
    stop_collecting(true);
    r = flush_files(profile_file_flush);
    return r == 0 ? 0 : error_folder(function, profile.folder, r);
}

static int end_session(const char *function)
{
    int error = stop_running(function);

    if (profile.folder)
        flush_files(profile_file_end);
    free(profile.folder);
    free(profile.path);
    profile.folder = profile.path = NULL;
    profile.settings = (struct profile_settings){0};
    profile.owner = OWNER_NONE;
    return error;
}

/* --- begun by the configuration of aclInit --- */

int profile_begin_outside(const char *path, uint64_t data, const struct profile_settings *set)
{
    struct aclprofConfig all = {.metrics = ACL_AICORE_NONE, .data = data};
    struct seen seen;
    int error;

    find_devices("aclInit", &seen);
    all.devices = seen.devices;
    pthread_mutex_lock(&profile.lock);
    profile.seen = seen;
    error = profile.owner == OWNER_NONE
                ? begin_session("aclInit", OWNER_OUTSIDE, path ? path : default_path())
                : 0;
    if (error == 0 && profile.owner == OWNER_OUTSIDE && !profile.runs) {
        profile.settings = *set;
        error = start_running("aclInit", &all);
        if (error != 0)
            end_session("aclInit");
    }
    pthread_mutex_unlock(&profile.lock);
    return error;
}

void profile_unconfigure(void)
{
    struct error_saved ignored;

    pthread_mutex_lock(&profile.lock);
    if (profile.owner == OWNER_OUTSIDE) {
        error_save(&ignored);
        end_session("aclFinalize");
        error_save_end(&ignored);
    }
    pthread_mutex_unlock(&profile.lock);
}

/* --- the program's --- */

static int error_outside(const char *function)
{
    return error_set(ACL_ERROR_PROF_ALREADY_RUN,
                     "%s: the configuration of aclInit has begun profiling: it ends with "
                     "aclFinalize",
                     function);
}

int profile_lock_without_session(const char *function)
{
    enum owner owner;

    pthread_mutex_lock(&profile.lock);
    owner = profile.owner;
    if (owner == OWNER_NONE)
        return 0;
    pthread_mutex_unlock(&profile.lock);
    return owner == OWNER_OUTSIDE
               ? error_outside(function)
               : error_set(ACL_ERROR_PROF_API_CONFLICT,
                           "%s: a session of profiling is there: aclprofFinalize ends it",
                           function);
}

void profile_unlock(void)
{
    pthread_mutex_unlock(&profile.lock);
}

static int init_locked(const char *function, const char *path)
{
    if (profile.owner == OWNER_OUTSIDE)
        return error_outside(function);
    if (profile.owner != OWNER_NONE)
        return error_set(ACL_ERROR_REPEAT_INITIALIZE,
                         "%s: was called already: aclprofFinalize ends that session", function);
    return begin_session(function, OWNER_PROGRAM, path);
}

aclError aclprofInit(const char *profilerResultPath, size_t length)
{
    CALL_SCOPE;
    const char *mode = secure_getenv("PROFILING_MODE");
    int error;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(profilerResultPath);
    if (length == 0 || length >= 4096 || strnlen(profilerResultPath, 4096) != length)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: length is %zu, and must be that of the path, 1 to 4095", __func__,
                         length);
    if (mode && strcmp(mode, "dynamic") == 0)
        return error_set(ACL_ERROR_FEATURE_UNSUPPORTED,
                         "%s: PROFILING_MODE is dynamic, which npud does not have: unset it",
                         __func__);
    pthread_mutex_lock(&profile.lock);
    error = init_locked(__func__, profilerResultPath);
    pthread_mutex_unlock(&profile.lock);
    return error;
}

aclError aclprofFinalize(void)
{
    CALL_SCOPE;
    int error = 0;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&profile.lock);
    if (profile.owner == OWNER_PROGRAM)
        error = end_session(__func__);
    pthread_mutex_unlock(&profile.lock);
    return error;
}

/* Under the lock. */
static bool is_config(const aclprofConfig *c)
{
    const struct aclprofConfig *known;

    DL_FOREACH (profile.configs, known)
        if (known == c)
            return true;
    return false;
}

static bool is_metric(aclprofAicoreMetrics metrics)
{
    return metrics == ACL_AICORE_NONE || (unsigned)metrics <= ACL_AICORE_MEMORY_ACCESS;
}

/* Under the lock. *c becomes what config says; NULL: all that there is. */
static int read_config(const char *function, const aclprofConfig *config, struct aclprofConfig *c)
{
    if (!config)
        return 0;
    if (!is_config(config))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: this is no configuration of aclprofCreateConfig, or it was destroyed",
                         function);
    *c = *config;
    if (c->data == 0)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the configuration collects nothing: dataTypeConfig is 0", function);
    return 0;
}

static bool is_same(const struct aclprofConfig *a, const struct aclprofConfig *b)
{
    return a->devices == b->devices && a->metrics == b->metrics && a->data == b->data;
}

static int error_other(const char *function)
{
    return error_set(ACL_ERROR_INVALID_PROFILING_CONFIG,
                     "%s: another configuration is collected: stop that one first", function);
}

static int start_locked(const char *function, const aclprofConfig *config, struct aclprofConfig *c)
{
    RETURN_IF_ERROR(read_config(function, config, c));
    if (c->data & ~DATA_KNOWN)
        return error_set(ACL_ERROR_PROF_MODULES_UNSUPPORTED,
                         "%s: the device does not have data of type 0x%llx", function,
                         (unsigned long long)(c->data & ~DATA_KNOWN));
    if (!is_metric(c->metrics))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the device does not have metrics %d",
                         function, (int)c->metrics);
    if (profile.owner == OWNER_OUTSIDE)
        return error_outside(function);
    if (profile.runs)
        return is_same(c, &profile.running) ? 0 : error_other(function);
    if (profile.owner == OWNER_NONE)
        RETURN_IF_ERROR(begin_session(function, OWNER_PROGRAM, default_path()));
    return start_running(function, c);
}

aclError aclprofStart(const aclprofConfig *profilerConfig)
{
    CALL_SCOPE;
    struct aclprofConfig c = {.metrics = ACL_AICORE_NONE,
                              .data = ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX};
    struct seen seen;
    int error;

    RETURN_IF_ERROR(process_enter());
    find_devices(__func__, &seen);
    c.devices = seen.devices;
    pthread_mutex_lock(&profile.lock);
    profile.seen = seen;
    error = start_locked(__func__, profilerConfig, &c);
    pthread_mutex_unlock(&profile.lock);
    return error;
}

static int stop_locked(const char *function, const aclprofConfig *config)
{
    struct aclprofConfig c = profile.running;

    RETURN_IF_ERROR(read_config(function, config, &c));
    RETURN_IF_ERROR(check_no_subscription(function));
    if (profile.owner == OWNER_OUTSIDE)
        return error_outside(function);
    if (profile.runs && !is_same(&c, &profile.running))
        return error_other(function);
    return stop_running(function);
}

aclError aclprofStop(const aclprofConfig *profilerConfig)
{
    CALL_SCOPE;
    int error;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&profile.lock);
    error = stop_locked(__func__, profilerConfig);
    pthread_mutex_unlock(&profile.lock);
    return error;
}

/* --- configurations --- */

/* False, with its sentence: a device that there is not, or that is there twice. */
static bool read_devices(const char *function, const uint32_t *ids, uint32_t n, uint32_t *devices)
{
    struct session *s;
    uint32_t device;

    *devices = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (device_get(function, ids[i], &s, &device) != 0)
            return false;
        if (*devices >> device & 1) {
            error_set(ACL_ERROR_INVALID_PARAM, "%s: device %u is in the list twice", function,
                      ids[i]);
            return false;
        }
        *devices |= UINT32_C(1) << device;
    }
    return true;
}

static bool check_config(const char *function, const uint32_t *ids, uint32_t n,
                         const aclprofAicoreEvents *events, uint64_t data)
{
    if (!ids && n > 0)
        error_null(function, "deviceIdList");
    else if (events)
        error_set(ACL_ERROR_INVALID_PARAM, "%s: aicoreEvents is reserved, and must be NULL",
                  function);
    else if (n == 0 && !(data & ACL_PROF_MSPROFTX))
        error_set(ACL_ERROR_INVALID_PARAM,
                  "%s: no device, and no ACL_PROF_MSPROFTX: there is nothing to collect", function);
    else
        return true;
    return false;
}

aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums,
                                   aclprofAicoreMetrics aicoreMetrics,
                                   const aclprofAicoreEvents *aicoreEvents, uint64_t dataTypeConfig)
{
    CALL_SCOPE;
    struct aclprofConfig *c;
    uint32_t devices;

    if (process_enter() != 0 ||
        !check_config(__func__, deviceIdList, deviceNums, aicoreEvents, dataTypeConfig) ||
        !read_devices(__func__, deviceIdList, deviceNums, &devices))
        return NULL;
    c = malloc(sizeof(*c));
    if (!c) {
        error_no_memory(__func__);
        return NULL;
    }
    *c = (struct aclprofConfig){
        .devices = devices, .metrics = aicoreMetrics, .data = dataTypeConfig};
    pthread_mutex_lock(&profile.lock);
    DL_APPEND(profile.configs, c);
    pthread_mutex_unlock(&profile.lock);
    return c;
}

aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig)
{
    CALL_SCOPE;
    aclprofConfig *c = (aclprofConfig *)(uintptr_t)profilerConfig;
    bool known;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(profilerConfig);
    pthread_mutex_lock(&profile.lock);
    known = is_config(c);
    if (known)
        DL_DELETE(profile.configs, c);
    pthread_mutex_unlock(&profile.lock);
    if (!known)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: this is no configuration of aclprofCreateConfig, or it was destroyed",
                         __func__);
    free(c);
    return 0;
}

void profile_set_limit(uint64_t bytes)
{
    pthread_mutex_lock(&profile.lock);
    profile.settings.limit = bytes;
    pthread_mutex_unlock(&profile.lock);
}

/* --- life --- */

static void init_files(void)
{
    profile_file_init(&profile_files.host);
    for (uint32_t d = 0; d < DEVICES_MAX; d++)
        profile_file_init(&profile_files.device[d]);
}

/* The files are the parent's, and so is what is not in them yet. */
static void forget_all(void)
{
    struct aclprofConfig *c, *next;

    collecting = (struct collecting){0};
    profile_file_drop(&profile_files.host);
    for (uint32_t d = 0; d < DEVICES_MAX; d++)
        profile_file_drop(&profile_files.device[d]);
    init_files();
    free(profile.folder);
    free(profile.path);
    DL_FOREACH_SAFE (profile.configs, c, next)
        free(c);
    memset(&profile, 0, sizeof(profile));
    lock_init(&profile.lock, LOCK_PROFILE);
    profile_stamps_forget();
}

/*
 * A process that ends without having stopped: what can be written is, and nothing waits for threads
 * that go on meanwhile, as one may have a stream locked for ever. The files stay open for them.
 */
static __attribute__((destructor)) void write_rest(void)
{
    if (!atomic_load(&process->alive) || pthread_mutex_trylock(&profile.lock) != 0)
        return;
    if (profile.runs) {
        stop_collecting(false);
        flush_files(profile_file_flush);
    }
    pthread_mutex_unlock(&profile.lock);
}

static __attribute__((constructor)) void init(void)
{
    lock_order_know(&profile.lock, LOCK_PROFILE);
    init_files();
}

/* Its streams are no more, and what they had pending is lost. */
static void free_session(struct session *s)
{
    for (uint32_t i = 0; i < s->streams.end; i++) {
        struct stream *stream = slots_at(&s->streams, i);

        if (stream)
            profile_stream_forget(stream);
    }
}

const struct part profile_part = {.fork_child = forget_all, .session_free = free_session};
