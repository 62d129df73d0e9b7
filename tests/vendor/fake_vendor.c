/*
 * A vendor's library that is none: what daemon/executor/acl.c asks of AscendCL, done at once in
 * memory of the host. It can be made to misbehave by the environment of the process:
 *
 *   FAKE_VENDOR_DEVICES=N     so many devices; 2
 *   FAKE_VENDOR_WITHOUT=F,..  these functions are not there
 *   FAKE_VENDOR_DO=F:N:W,..   call N of function F (0: each) does W: a code, or a word of
 *                             do_what(); "late=CODE": a task is taken, not done, and the code is
 *                             told at the next synchronisation; "stuck": it does not end before it
 *                             is aborted
 *   FAKE_VENDOR_RANDOM=SEED   tasks end with codes, at once or late, now and then
 *   FAKE_VENDOR_GATE=FD       where "gate" writes a byte, and then waits for one
 *   FAKE_VENDOR_SHARE=FOLDER  memory can be shared with processes that have the same folder
 *   FAKE_VENDOR_THREADS=N     so many threads that never end
 *   FAKE_VENDOR_FLOOD=1       each call writes 64 KiB to standard output
 *   FAKE_VENDOR_DIRTY=1       new memory has old bytes
 *   FAKE_VENDOR_OVERLAP=1     all memory is at one address
 *
 * It is strict: a device is not reset while there is memory, a stream, a binary or a registration
 * of it, and only what was registered is unregistered.
 */
#include <acl/acl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE      4096u
#define DEVICES   16u
#define ALL_BYTES (UINT64_C(1) << 30) /* of a device, as it says */

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *value = getenv(variable);

    return value ? strtoull(value, NULL, 10) : otherwise;
}

/* --- functions that are not there --- */

/* A symbol of another name is not found by its own: the last byte of its name changes. */
static void spoil_name(char *names, size_t size, const char *name)
{
    char wanted[128];
    size_t length = (size_t)snprintf(wanted + 1, sizeof(wanted) - 1, "%s", name) + 2;
    char *found;

    wanted[0] = '\0';
    found = memmem(names, size, wanted, length);
    if (!found)
        abort(); /* a test that takes away what is not there would test nothing */
    found += length - 2;
    mprotect((void *)((uintptr_t)found & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
    *found = '!';
}

__attribute__((constructor)) static void take_functions_away(void)
{
    const char *without = getenv("FAKE_VENDOR_WITHOUT");
    char list[4096], *rest = list, *name, *names = NULL;
    size_t size = 0;

    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB)
            names = (char *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRSZ)
            size = d->d_un.d_val;
    }
    snprintf(list, sizeof(list), "%s", without ? without : "");
    while ((name = strsep(&rest, ",")))
        if (*name)
            spoil_name(names, size, name);
}

/* --- the script --- */

#define RULES 16
#define GO    (-1)    /* nothing but what was asked */
#define STUCK INT_MAX /* the task never ends */
#define LATE  INT_MIN /* with this bit: the code is told later */

static struct rule {
    char name[64], what[32];
    unsigned nth;
    _Atomic unsigned calls;
} rules[RULES];
static unsigned n_rules;

__attribute__((constructor)) static void read_rules(void)
{
    const char *text = getenv("FAKE_VENDOR_DO");
    char list[1024], *rest = list, *one;

    snprintf(list, sizeof(list), "%s", text ? text : "");
    while ((one = strsep(&rest, ",")) && n_rules < RULES) {
        struct rule *r = &rules[n_rules];

        if (*one == '\0')
            continue;
        if (sscanf(one, "%63[^:]:%u:%31s", r->name, &r->nth, r->what) != 3)
            abort();
        n_rules++;
    }
}

static int pass_gate(void)
{
    int gate = (int)number_of("FAKE_VENDOR_GATE", 0);
    char byte = '!';

    if (write(gate, &byte, 1) != 1 || read(gate, &byte, 1) != 1)
        abort();
    return 0;
}

static int do_what(const char *what)
{
    if (strcmp(what, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(what, "exit") == 0)
        exit(3);
    if (strcmp(what, "abort") == 0)
        abort();
    if (strcmp(what, "segv") == 0 && signal(SIGSEGV, SIG_DFL) != SIG_ERR) /* not a sanitizer's */
        raise(SIGSEGV);
    if (strcmp(what, "close") == 0)
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
    if (strcmp(what, "gate") == 0)
        return pass_gate();
    if (strcmp(what, "stuck") == 0)
        return STUCK;
    return strncmp(what, "late=", 5) == 0 ? LATE | atoi(what + 5) : atoi(what);
}

static void flood(void)
{
    static const char lines[65536] = {[0 ... 65534] = '\n'};

    if (getenv("FAKE_VENDOR_FLOOD") && write(STDOUT_FILENO, lines, sizeof(lines)) < 0)
        abort();
}

/* Each rule counts all calls of its function. */
static int script(const char *name)
{
    const struct rule *found = NULL;

    flood();
    for (unsigned i = 0; i < n_rules; i++) {
        struct rule *r = &rules[i];

        if (strcmp(r->name, name) == 0 &&
            (atomic_fetch_add(&r->calls, 1) + 1 == r->nth || r->nth == 0))
            found = r;
    }
    return found ? do_what(found->what) : 0;
}

static _Thread_local char said[128]; /* of the last error of the thread */

static aclError say(const char *name, int code)
{
    if (code != 0)
        snprintf(said, sizeof(said), "%s said %d", name, code);
    return code;
}

/** First in each function that is not about a stream. */
#define CALL()                                                                                     \
    do {                                                                                           \
        int code_ = script(__func__);                                                              \
        if (code_ != 0)                                                                            \
            return say(__func__, code_ & ~LATE);                                                   \
    } while (0)

/* --- the library and its devices --- */

static _Thread_local int32_t current = -1;
static _Thread_local void *context;
static char contexts[DEVICES];
static _Atomic int owned[DEVICES]; /* what is still to be given back */

/* Of the thread's device, which is returned. */
static int32_t own(void)
{
    int32_t device = current < 0 ? 0 : current;

    owned[device]++;
    return device;
}

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

aclError aclInit(const char *config)
{
    (void)config;
    CALL();
    for (uint64_t n = number_of("FAKE_VENDOR_THREADS", 0); n > 0; n--) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, idle, NULL) != 0)
            abort();
    }
    return 0;
}

aclError aclFinalize(void)
{
    CALL();
    return 0;
}

const char *aclGetRecentErrMsg(void)
{
    return said[0] ? said : NULL;
}

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
    CALL();
    *major = 1;
    *minor = *patch = 0;
    return 0;
}

aclError aclrtGetDeviceCount(uint32_t *n)
{
    CALL();
    *n = (uint32_t)number_of("FAKE_VENDOR_DEVICES", 2);
    return 0;
}

aclError aclrtSetDevice(int32_t device)
{
    CALL();
    if (device < 0 || device >= (int32_t)number_of("FAKE_VENDOR_DEVICES", 2))
        return say(__func__, ACL_ERROR_RT_INVALID_DEVICEID);
    current = device;
    context = &contexts[device];
    return 0;
}

aclError aclrtGetDevice(int32_t *device)
{
    *device = current;
    return current < 0 ? ACL_ERROR_RT_CONTEXT_NULL : 0;
}

aclError aclrtResetDevice(int32_t device)
{
    CALL();
    return owned[device] != 0 ? say(__func__, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR) : 0;
}

aclError aclrtResetDeviceForce(int32_t device)
{
    CALL();
    if (owned[device] != 0)
        return say(__func__, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
    current = -1;
    context = NULL;
    return 0;
}

const char *aclrtGetSocName(void)
{
    return "Fake";
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *all)
{
    (void)attr;
    CALL();
    *free_bytes = *all = ALL_BYTES;
    return 0;
}

aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo *use)
{
    (void)device;
    CALL();
    use->cubeUtilization = 7;
    use->vectorUtilization = 42;
    return 0;
}

aclError aclrtGetCurrentContext(aclrtContext *c)
{
    CALL();
    *c = context;
    return context ? 0 : say(__func__, ACL_ERROR_RT_CONTEXT_NULL);
}

aclError aclrtSetCurrentContext(aclrtContext c)
{
    CALL();
    context = c;
    current = (int32_t)((char *)c - contexts);
    return 0;
}

/* --- memory --- */

/* In the page before the memory. */
struct block {
    size_t size;
    int32_t device;
};

static struct block *block_of(void *address)
{
    return (struct block *)((char *)address - PAGE);
}

static aclError new_block(void **address, size_t size, int rights)
{
    static _Atomic(void *) one;
    void *none = NULL;
    char *at = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return say(__func__, ACL_ERROR_RT_MEMORY_ALLOCATION);
    *(struct block *)at = (struct block){size, own()};
    *address = at + PAGE;
    if (getenv("FAKE_VENDOR_DIRTY"))
        memset(*address, 0xee, size);
    mprotect(*address, size, rights);
    if (getenv("FAKE_VENDOR_OVERLAP") && !atomic_compare_exchange_strong(&one, &none, *address))
        *address = none;
    return 0;
}

static void free_block(void *address)
{
    owned[block_of(address)->device]--;
    if (!getenv("FAKE_VENDOR_OVERLAP"))
        munmap(block_of(address), block_of(address)->size + PAGE);
}

aclError aclrtMalloc(void **address, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    CALL();
    return new_block(address, size, PROT_READ | PROT_WRITE);
}

aclError aclrtFree(void *address)
{
    CALL();
    free_block(address);
    return 0;
}

/* Of a file, whose number is its name in the folder. */
struct physical {
    uint64_t number; /* 0: it has not been exported */
    int fd;
};

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *kind,
                                          aclrtMemGranularityOptions option, size_t *bytes)
{
    (void)kind;
    (void)option;
    CALL();
    *bytes = 2 * PAGE;
    return 0;
}

static void file_name(char *path, size_t size, uint64_t number)
{
    snprintf(path, size, "%s/%llx", getenv("FAKE_VENDOR_SHARE"), (unsigned long long)number);
}

static aclError new_physical(aclrtDrvMemHandle *handle, int fd, uint64_t number)
{
    struct physical *p = malloc(sizeof(*p));

    if (fd < 0 || !p)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *p = (struct physical){number, fd};
    *handle = p;
    return 0;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                             const aclrtPhysicalMemProp *kind, uint64_t flags)
{
    static _Atomic uint64_t numbers;
    uint64_t number = (uint64_t)getpid() << 32 | ++numbers;
    char path[PATH_MAX];
    int fd;

    (void)kind;
    (void)flags;
    CALL();
    if (!getenv("FAKE_VENDOR_SHARE"))
        return say(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    file_name(path, sizeof(path), number);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, (off_t)size) < 0)
        return say(__func__, ACL_ERROR_RT_MEMORY_ALLOCATION);
    return new_physical(handle, fd, number);
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    struct physical *p = handle;

    CALL();
    close(p->fd);
    free(p);
    return 0;
}

aclError aclrtReserveMemAddress(void **address, size_t size, size_t alignment, void *wanted,
                                uint64_t flags)
{
    (void)alignment;
    (void)wanted;
    (void)flags;
    CALL();
    return new_block(address, size, PROT_NONE);
}

aclError aclrtReleaseMemAddress(void *address)
{
    CALL();
    free_block(address);
    return 0;
}

aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags)
{
    const struct physical *p = handle;

    (void)flags;
    CALL();
    return mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd,
                (off_t)offset) == MAP_FAILED
               ? say(__func__, ACL_ERROR_RT_MEMORY_ALLOCATION)
               : 0;
}

aclError aclrtUnmapMem(void *address)
{
    CALL();
    return mprotect(address, block_of(address)->size, PROT_NONE) < 0 ? ACL_ERROR_RT_PARAM_INVALID
                                                                     : 0;
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType kind,
                                         uint64_t flags, uint64_t *number)
{
    (void)kind;
    (void)flags;
    CALL();
    *number = ((struct physical *)handle)->number;
    return 0;
}

aclError aclrtMemSetPidToShareableHandle(uint64_t number, int32_t *pids, size_t n)
{
    (void)number;
    (void)pids;
    (void)n;
    CALL();
    return 0;
}

aclError aclrtMemImportFromShareableHandle(uint64_t number, int32_t device,
                                           aclrtDrvMemHandle *handle)
{
    char path[PATH_MAX];

    (void)device;
    CALL();
    file_name(path, sizeof(path), number);
    return say(__func__, new_physical(handle, open(path, O_RDWR | O_CLOEXEC), number));
}

#define REGISTRATIONS 64

static struct {
    void *pages; /* NULL: free */
    int32_t device;
} registrations[REGISTRATIONS];
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

/* The one of the pages, or a free one: NULL. Aborts if there is none. Takes the lock. */
static unsigned find_registration(const void *pages)
{
    pthread_mutex_lock(&registering);
    for (unsigned i = 0; i < REGISTRATIONS; i++)
        if (registrations[i].pages == pages)
            return i;
    abort();
}

aclError aclrtHostRegisterV2(void *pages, uint64_t size, uint32_t flags)
{
    unsigned i;

    (void)size;
    (void)flags;
    CALL();
    if (!context)
        return say(__func__, ACL_ERROR_RT_CONTEXT_NULL);
    i = find_registration(NULL);
    registrations[i].pages = pages;
    registrations[i].device = own();
    pthread_mutex_unlock(&registering);
    return 0;
}

aclError aclrtHostUnregister(void *pages)
{
    unsigned i;

    CALL();
    i = find_registration(pages);
    registrations[i].pages = NULL;
    owned[registrations[i].device]--;
    pthread_mutex_unlock(&registering);
    return 0;
}

/* --- streams --- */

struct stream {
    pthread_mutex_t lock;
    pthread_cond_t aborted;
    int32_t device;
    bool stuck;
    aclError error; /* to be told */
};

aclError aclrtCreateStream(aclrtStream *stream)
{
    struct stream *s;

    CALL();
    s = calloc(1, sizeof(*s));
    if (!s)
        return say(__func__, ACL_ERROR_RT_MEMORY_ALLOCATION);
    s->device = own();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->aborted, NULL);
    *stream = s;
    return 0;
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    CALL();
    owned[((struct stream *)stream)->device]--;
    free(stream);
    return 0;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    struct stream *s = stream;
    aclError error;

    CALL();
    pthread_mutex_lock(&s->lock);
    while (s->stuck)
        pthread_cond_wait(&s->aborted, &s->lock);
    error = s->error;
    s->error = 0;
    pthread_mutex_unlock(&s->lock);
    return say(__func__, error);
}

aclError aclrtStreamAbort(aclrtStream stream)
{
    struct stream *s = stream;

    CALL();
    pthread_mutex_lock(&s->lock);
    if (s->stuck)
        s->error = ACL_ERROR_RT_STREAM_ABORT;
    s->stuck = false;
    pthread_cond_broadcast(&s->aborted);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Some codes of each kind, for every eighth task or so. */
static int random_code(void)
{
    static _Atomic uint64_t state;
    static const int codes[] = {507015,        LATE | 507015, 207001,
                                LATE | 507018, 107000,        LATE | 507010};
    uint64_t x, seed = number_of("FAKE_VENDOR_RANDOM", 0);

    if (seed == 0)
        return 0;
    x = (atomic_fetch_add(&state, 1) + seed) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 40;
    return x % 8 != 0 ? 0 : codes[x / 8 % 6];
}

/* GO, or what the call answers: the task is not to be done. */
static aclError begin_task(struct stream *s, const char *name)
{
    int code = script(name);

    if (code == 0)
        code = random_code();
    if (code == 0)
        return GO;
    pthread_mutex_lock(&s->lock);
    if (code == STUCK)
        s->stuck = true;
    else if (code < 0)
        s->error = code & ~LATE;
    pthread_mutex_unlock(&s->lock);
    return code == STUCK || code < 0 ? 0 : say(name, code);
}

#define TASK(stream)                                                                               \
    do {                                                                                           \
        aclError code_ = begin_task(stream, __func__);                                             \
        if (code_ != GO)                                                                           \
            return code_;                                                                          \
    } while (0)

aclError aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t n, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    (void)room;
    (void)kind;
    TASK(stream);
    memmove(dst, src, n);
    return 0;
}

aclError aclrtMemsetAsync(void *dst, size_t room, int32_t value, size_t n, aclrtStream stream)
{
    (void)room;
    TASK(stream);
    memset(dst, value, n);
    return 0;
}

/* Sums of floats. */
aclError aclrtReduceAsync(void *dst, const void *src, uint64_t n, aclrtReduceKind kind,
                          aclDataType type, aclrtStream stream, void *reserved)
{
    (void)reserved;
    TASK(stream);
    if (kind != ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || type != ACL_FLOAT)
        return say(__func__, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    for (uint64_t i = 0; i < n / sizeof(float); i++)
        ((float *)dst)[i] += ((const float *)src)[i];
    return 0;
}

aclError aclrtValueWrite(void *address, uint64_t value, uint32_t flag, aclrtStream stream)
{
    (void)flag;
    TASK(stream);
    atomic_store((_Atomic uint64_t *)address, value);
    return 0;
}

/* --- kernels: "FAKE" has one function, "add" --- */

struct arguments {
    uint64_t address, value;
};

aclError aclrtBinaryLoadFromData(const void *data, size_t n, const aclrtBinaryLoadOptions *options,
                                 aclrtBinHandle *binary)
{
    (void)options;
    CALL();
    if (n < 4 || memcmp(data, "FAKE", 4) != 0)
        return say(__func__, ACL_ERROR_RT_PARAM_INVALID);
    *binary = malloc(sizeof(int32_t));
    *(int32_t *)*binary = own();
    return 0;
}

aclError aclrtBinaryUnLoad(aclrtBinHandle binary)
{
    CALL();
    owned[*(int32_t *)binary]--;
    free(binary);
    return 0;
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binary, const char *name,
                                aclrtFuncHandle *function)
{
    CALL();
    *function = binary;
    return strcmp(name, "add") == 0 ? 0 : say(__func__, ACL_ERROR_RT_KERNEL_LOOKUP);
}

/* Each block adds. */
aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks,
                                       aclrtStream stream, aclrtLaunchKernelCfg *config,
                                       void *arguments, size_t n, aclrtPlaceHolderInfo *holders,
                                       size_t n_holders)
{
    struct arguments a;

    (void)function;
    (void)config;
    (void)holders;
    (void)n_holders;
    TASK(stream);
    if (n != sizeof(a))
        return say(__func__, ACL_ERROR_RT_PARAM_INVALID);
    memcpy(&a, arguments, sizeof(a));
    *(uint64_t *)(uintptr_t)a.address += a.value * blocks; /* NOLINT: that is what a device does */
    return 0;
}
