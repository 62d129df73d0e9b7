/*
 * An executor without a library: npud finds it by NPUD_EXECUTOR. Its device is memory of its own,
 * and everything is done at once and well. It tells one lie, by the name in the file NPUD_LIES,
 * which it takes away: so the next executor tells the truth (tests/e2e/liars.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/executor/rights.h"
#include "proto/shm/executor_shm.h"
#include "proto/util/fd_message.h"
#include "proto/util/futex.h"
#include "proto/wire/executor_message.h"

#define BAD 107000
/* Of those that tests have for executors. */
#define FIRST_UID 1900000000

struct thing {
    uint64_t handle, size;
    unsigned char *at;
    int fd;
};

static char lie[64];
static struct thing things[EXECUTOR_HANDLES];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static const struct executor_ring *ring;
static struct executor_page *page;
static _Atomic int wake[EXECUTOR_DEVICES];
static _Atomic uint64_t handled;
static _Atomic bool done_once;
static bool begun[EXECUTOR_LANES];
static unsigned made; /* memory, so far */

static bool lies(const char *name)
{
    return strcmp(lie, name) == 0;
}

/* One executor takes it: unlink() succeeds for one. One that sweeps takes the lies for such. */
static void take_lie(bool sweeps)
{
    const char *path = getenv("NPUD_LIES");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? 0 : read(fd, lie, sizeof(lie) - 1);

    lie[n < 0 ? 0 : n] = '\0';
    if (n > 0 && (sweeps != (strstr(lie, "-sweep") != NULL) || unlink(path) < 0))
        lie[0] = '\0';
}

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

static void flood(bool waiting)
{
    static char line[4096];

    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\n';
    if (waiting)
        fcntl(STDERR_FILENO, F_SETFL, 0);
    for (int i = 0; i < 4096; i++)
        if (write(STDERR_FILENO, line, sizeof(line)) < 0 && errno != EAGAIN)
            return;
}

/* A pipe that nobody has would be told by SIGPIPE or EPIPE. */
static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0 && errno != EAGAIN)
        _exit(12);
}

/* What a terminal would obey, a line that is too long, and one without an end. */
static void speak(void)
{
    static char line[2000];

    memset(line, 'y', sizeof(line) - 2);
    line[sizeof(line) - 2] = '\n';
    say("\033[31mred\\ \303\244\n\n");
    say(line);
    if (write(STDOUT_FILENO, "a\0b\n", 4) != 4)
        _exit(12);
    say("no end");
}

/*
 * Out of the group, before it returns. It stops all processes that it may: but not where these are
 * not its own.
 */
static void live_on(bool fights)
{
    pid_t parent = getpid(), child;

    if (fights && getuid() < FIRST_UID)
        _exit(13);
    child = fork();
    while (child > 0 && getsid(child) != child)
        sched_yield();
    if (child != 0)
        return;
    setsid();
    while (fights && getppid() == parent)
        sched_yield();
    while (fights)
        kill(-1, SIGSTOP);
    sleep_for_ever();
}

static void fork_and_exit(void)
{
    if (fork() == 0)
        sleep_for_ever();
    _exit(3);
}

/* --- ends: the same in a lane and in the control thread, which is "-asked" --- */

static void end_by_lie(bool asked)
{
    char name[sizeof(lie)];

    snprintf(name, sizeof(name), "%s", lie);
    if (asked) {
        char *tail = strstr(name, "-asked");

        if (!tail)
            return;
        *tail = '\0';
    }
    if (strcmp(name, "exit") == 0)
        _exit(7);
    if (strcmp(name, "abort") == 0)
        abort();
    if (strcmp(name, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(name, "hang") == 0)
        sleep_for_ever();
    if (strcmp(name, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(name, "fork") == 0)
        fork_and_exit();
    if (strcmp(name, "close") == 0)
        shutdown(EXECUTOR_SOCKET, SHUT_RDWR);
    if (strcmp(name, "close-all") == 0)
        close_range(0, ~0u, 0);
    if (strcmp(name, "flood") == 0)
        flood(false);
    if (strcmp(name, "flood-waiting") == 0)
        flood(true);
    if (strcmp(name, "talk") == 0)
        say("it talks\n");
    if (strcmp(name, "speak") == 0 && !atomic_exchange(&done_once, true))
        speak();
    if (strcmp(name, "last-words") == 0) {
        say("the last words");
        _exit(3);
    }
    if (strcmp(name, "fork-stay") == 0 && !atomic_exchange(&done_once, true))
        live_on(false);
    if (strcmp(name, "fork-away") == 0 || strcmp(name, "fork-fight") == 0) {
        for (int i = 0; i < 4; i++)
            live_on(strcmp(name, "fork-fight") == 0);
        _exit(3);
    }
}

/* --- lanes --- */

static struct thing *find(uint64_t handle)
{
    struct thing *t = &things[handle & (EXECUTOR_HANDLES - 1)];

    return handle != 0 && t->handle == handle ? t : NULL;
}

static unsigned char *place(struct executor_place at, uint64_t size)
{
    struct thing *t = find(at.handle);

    return t && at.offset <= t->size && size <= t->size - at.offset ? t->at + at.offset : NULL;
}

struct arguments {
    uint64_t to, value;
};

/* A kernel writes a word. The binary is there until it is dropped. */
static int32_t run_kernel(const struct executor_task *t)
{
    struct executor_launch launch;
    struct arguments a;
    unsigned char *src = place(t->src, sizeof(launch) + sizeof(a));

    if (!find(t->dst.handle) || t->dst.offset != 0 || !src)
        return BAD;
    memcpy(&launch, src, sizeof(launch));
    memcpy(&a, src + sizeof(launch), sizeof(a));
    if (launch.bytes != sizeof(a))
        return BAD;
    *(uint64_t *)(uintptr_t)a.to = a.value; /* NOLINT: an address of ours */
    return 0;
}

static int32_t run(const struct executor_task *t, struct executor_done *done)
{
    uint64_t size = t->op < EXECUTOR_WORD_WRITE ? t->size : sizeof(uint64_t);
    unsigned char *dst = place(t->dst, size), *src = place(t->src, size);

    switch (t->op) {
    case EXECUTOR_NOP:
        return 0;
    case EXECUTOR_COPY:
        return dst && src ? (memmove(dst, src, size), 0) : BAD;
    case EXECUTOR_SET:
        return dst ? (memset(dst, (int)t->value, size), 0) : BAD;
    case EXECUTOR_WORD_WRITE:
        return dst ? (memcpy(dst, &t->size, size), 0) : BAD;
    case EXECUTOR_WORD_READ:
        if (src)
            atomic_store(&done->value, *(uint64_t *)src);
        return src ? 0 : BAD;
    case EXECUTOR_LAUNCH:
        return run_kernel(t);
    default:
        return 207000;
    }
}

/* With all that an eventfd allows. */
static void play_with_bell(int fd)
{
    uint64_t n;

    for (int i = 0; i < 100; i++)
        if (read(fd, &n, sizeof(n)) < 0)
            eventfd_write(fd, UINT64_MAX - 1);
    fcntl(fd, F_SETFL, 0); /* of the description, which npud has, too */
}

static uint64_t number_to_tell(uint64_t number)
{
    /* More than is given ahead: what was given, and is not done yet, npud cannot know. */
    if (lies("done-future"))
        return number + 1000;
    if (lies("done-far"))
        return UINT64_MAX;
    if (lies("done-torn"))
        return number | UINT64_C(1) << 32;
    return number;
}

static int32_t code_to_tell(int32_t code)
{
    return lies("code-negative") ? -22 : lies("code-odd") ? 12345 : code;
}

static void *lane_main(void *arg)
{
    unsigned lane = (unsigned)(uintptr_t)arg;
    struct executor_done *done = &page->lane[lane];
    _Atomic uint32_t *news = (_Atomic uint32_t *)&ring->bell[lane].news;

    atomic_store(&done->asleep, 1);
    for (uint64_t n = 1;; n++) {
        struct executor_task task;
        int32_t code;
        int fd;

        while (atomic_load(&ring->bell[lane].issued) < n)
            futex_wait_until(news, (uint32_t)(n - 1), NULL);
        task = ring->entry[lane][n % EXECUTOR_DEPTH];
        while (atomic_load(&handled) < task.after)
            sched_yield();
        end_by_lie(false);
        pthread_rwlock_rdlock(&lock);
        code = code_to_tell(run(&task, done));
        pthread_rwlock_unlock(&lock);
        atomic_store(&done->code, code);
        atomic_store(&page->code[lane][n % EXECUTOR_DEPTH], code);
        atomic_store(&done->done, number_to_tell(n));
        if (lies("done-back") && n > 1)
            atomic_store(&done->done, n - 2);
        fd = atomic_load(&wake[task.device]);
        if (lies("bell"))
            fcntl(fd, F_SETFL, O_NONBLOCK);
        if (!lies("silent") && atomic_load(&ring->bell[lane].awaited))
            eventfd_write(fd, 1);
        if (lies("bell"))
            play_with_bell(fd);
    }
    return NULL;
}

static void begin_lane(unsigned lane)
{
    pthread_t thread;

    if (lane < EXECUTOR_LANES && !begun[lane])
        begun[lane] = pthread_create(&thread, NULL, lane_main, (void *)(uintptr_t)lane) == 0;
}

/* --- memory --- */

static bool add(uint64_t handle, uint64_t size, int fd)
{
    struct thing *t = &things[handle & (EXECUTOR_HANDLES - 1)];
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED || t->handle != 0)
        return false;
    pthread_rwlock_wrlock(&lock);
    *t = (struct thing){.handle = handle, .size = size, .at = at, .fd = fd};
    pthread_rwlock_unlock(&lock);
    return true;
}

static void drop(uint64_t handle)
{
    struct thing *t = find(handle);

    if (!t)
        return;
    pthread_rwlock_wrlock(&lock);
    munmap(t->at, t->size);
    close(t->fd);
    *t = (struct thing){0};
    pthread_rwlock_unlock(&lock);
}

static int new_memory(uint64_t size)
{
    int fd = memfd_create("liar", MFD_CLOEXEC);

    return fd < 0 || ftruncate(fd, (off_t)size) < 0 ? -1 : fd;
}

/* The first memory is honest: so there is some that can be lost. */
static void lie_about_memory(struct executor_answer *out)
{
    static uint64_t first;

    if (++made == 1) {
        first = out->address;
        return;
    }
    if (lies("address-zero"))
        out->address = 0;
    if (lies("address-wraps"))
        out->address = UINT64_MAX - 4095;
    if (lies("address-overlaps"))
        out->address = first;
    if (lies("size-small"))
        out->size--;
    if (lies("handle-other"))
        out->handle++;
    if (lies("number-other"))
        out->number += 1000;
    if (lies("op-other"))
        out->op = EXECUTOR_LIST;
    if (lies("refuses"))
        out->code = -7;
    if (lies("more-huge"))
        out->more = UINT32_MAX;
    if (lies("text-open"))
        memset(out->text, 'x', sizeof(out->text));
    if (lies("refuses-loudly")) {
        out->code = 207001;
        snprintf(out->text, sizeof(out->text), "\033[31m\nnpud: all is well\007");
    }
}

/* --- requests --- */

static void send_answer(const struct executor_answer *out, size_t size, const void *behind,
                        size_t behind_size, const int *fds, unsigned n)
{
    static unsigned char message[65536];

    memcpy(message, out, sizeof(*out));
    if (behind_size > 0)
        memcpy(message + sizeof(*out), behind, behind_size);
    fd_message_send(EXECUTOR_SOCKET, message, size + behind_size, fds, n, 0);
}

static void send_odd_answer(const struct executor_answer *out, const int *fds, unsigned n)
{
    const int many[] = {0, 1, 2, 0, 1, 2};

    if (made < 2)
        send_answer(out, sizeof(*out), NULL, 0, fds, n);
    else if (lies("short"))
        send_answer(out, 10, NULL, 0, NULL, 0);
    else if (lies("empty"))
        send_answer(out, 0, NULL, 0, NULL, 0);
    else if (lies("long"))
        send_answer(out, 60000, NULL, 0, NULL, 0);
    else if (lies("descriptors"))
        send_answer(out, sizeof(*out), NULL, 0, many, 6);
    else
        send_answer(out, sizeof(*out), NULL, 0, fds, n);
    if (made > 1 && lies("twice"))
        send_answer(out, sizeof(*out), NULL, 0, fds, n);
}

static void hello(const int *fds, struct executor_answer *out)
{
    ring = mmap(NULL, sizeof(*ring), PROT_READ, MAP_SHARED, fds[0], 0);
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    if (ring == MAP_FAILED || page == MAP_FAILED)
        _exit(9);
    if (lies("exit-hello"))
        _exit(5);
    if (lies("hang-hello"))
        sleep_for_ever();
    if (lies("no-hello"))
        out->code = 507899;
    out->value = 2;
    snprintf(out->text, sizeof(out->text), "so it is");
}

static unsigned list(const struct executor_request *in, struct executor_answer *out,
                     uint64_t *handles)
{
    unsigned n = 0;
    uint32_t i = (uint32_t)in->value;

    if (lies("list-for-ever") || lies("list-of-others")) {
        for (; n < EXECUTOR_LIST_MOST; n++)
            handles[n] = UINT64_C(0x123400000000) + n;
        out->value = lies("list-for-ever") ? in->value : in->value + 1;
        return n;
    }
    for (; i < EXECUTOR_HANDLES && n < EXECUTOR_LIST_MOST; i++)
        if (things[i].handle != 0)
            handles[n++] = things[i].handle;
    out->value = i;
    if (lies("list-surplus") && in->value == 0)
        handles[n++] = UINT64_C(0x77700000000) + 4000;
    return lies("list-empty") ? 0 : n;
}

static void serve_memory(const struct executor_request *in, int *fds, struct executor_answer *out)
{
    int fd = in->op == EXECUTOR_MEMORY_NEW ? new_memory(in->size) : fds[0];

    fds[0] = in->op == EXECUTOR_MEMORY_NEW ? fds[0] : -1;
    if (!add(in->handle, in->size, fd)) {
        out->code = 207001;
        return;
    }
    out->address = (uint64_t)(uintptr_t)find(in->handle)->at;
    out->size = in->size;
    lie_about_memory(out);
    if (made > 1)
        end_by_lie(true);
}

/* A file, and a function of it: what each is asked for, the lie names. */
static void serve_kernels(const struct executor_request *in, int *fds, struct executor_answer *out)
{
    bool load = in->op == EXECUTOR_BINARY_LOAD;

    if (load && lies("binary-vector") && in->value != 0x41415246)
        out->code = BAD; /* it is to be of vector cores */
    else if (load && !add(in->handle, in->size, fds[0]))
        out->code = 207001;
    else if (load)
        fds[0] = -1;
    if (lies(load ? "binary-other" : "function-other"))
        out->handle++;
    if (lies(load ? "binary-no-answer" : "function-no-answer"))
        out->number += 1000;
    if (lies(load ? "binary-exits" : "function-exits"))
        _exit(7);
    if (lies(load ? "binary-hangs" : "function-hangs"))
        sleep_for_ever();
    if (lies(load ? "binary-refused" : "function-refused")) {
        out->code = -7;
        snprintf(out->text, sizeof(out->text), "\033[31m\nall is well\007");
    }
}

static void serve_health(struct executor_answer *out)
{
    static const struct executor_health health = {.temperature = 41, .power = 70500, .errors = 3};

    if (lies("health-refused"))
        out->code = 207000;
    send_answer(out, sizeof(*out), &health,
                lies("health-short") || out->code != 0 ? 0 : sizeof(health), NULL, 0);
}

static void serve_one(const struct executor_request *in, int *fds)
{
    static uint64_t handles[EXECUTOR_LIST_MOST + 1];
    struct executor_answer out = {.op = in->op, .number = in->number, .handle = in->handle};
    struct executor_device_info info = {.name = "liar",
                                        .memory = UINT64_C(1) << 32,
                                        .granularity = 4096,
                                        .bus = "0000:11:00.0",
                                        .version = "the truth 1.0",
                                        .capabilities = EXECUTOR_CAN_SHARE | EXECUTOR_CAN_FD |
                                                        EXECUTOR_CAN_KERNEL | EXECUTOR_CAN_HEALTH};
    struct thing *t = find(in->handle);
    int fd = -1;

    switch (in->op) {
    case EXECUTOR_HELLO:
        hello(fds, &out);
        break;
    case EXECUTOR_DEVICE_INFO:
        send_answer(&out, sizeof(out), &info, sizeof(info), NULL, 0);
        return;
    case EXECUTOR_DEVICE_BEGIN:
        if (lies("hang-begin"))
            sleep_for_ever();
        out.code = lies("refuses-device") ? 507033 : 0;
        atomic_store(&wake[in->device], fds[0]);
        fds[0] = -1;
        break;
    case EXECUTOR_MEMORY_NEW:
    case EXECUTOR_MEMORY_IMPORT:
        serve_memory(in, fds, &out);
        break;
    case EXECUTOR_BINARY_LOAD:
    case EXECUTOR_FUNCTION:
        serve_kernels(in, fds, &out);
        break;
    case EXECUTOR_MEMORY_FREE:
        drop(in->handle);
        return;
    case EXECUTOR_MEMORY_EXPORT:
        fd = t ? t->fd : -1;
        break;
    case EXECUTOR_HOST_ATTACH:
        if (add(in->handle, in->size, fds[0]))
            fds[0] = -1;
        return;
    case EXECUTOR_LANE_BEGIN:
        begin_lane((unsigned)in->value);
        return;
    case EXECUTOR_HEALTH:
        serve_health(&out);
        return;
    case EXECUTOR_LIST:
        out.more = list(in, &out, handles);
        send_answer(&out, sizeof(out), handles, out.more * sizeof(handles[0]), NULL, 0);
        return;
    default:
        break;
    }
    send_odd_answer(&out, &fd, fd >= 0);
}

static struct rights read_rights(int argc, char **argv)
{
    static const char name[] = "--rights=";
    struct rights rights = {0};

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, sizeof(name) - 1) == 0 &&
            !rights_read(&rights, argv[i] + sizeof(name) - 1))
            _exit(10);
    if (argc > 1)
        sscanf(argv[1], "--sweep=%d", &rights.parent);
    return rights;
}

int main(int argc, char **argv)
{
    struct rights rights = read_rights(argc, argv);
    bool sweeps = rights.parent != 0;
    int fds[FD_MESSAGE_FDS];
    char why[256];

    signal(SIGPIPE, SIG_IGN);
    /*
     * With npud's rights: it is a file of npud's. Not for what sweeps behind the executor that has
     * asked for the devices, whose uid is the first: it may come late.
     */
    if (!sweeps || rights.uid != FIRST_UID)
        take_lie(sweeps);
    if (lies("killed-sweep"))
        raise(SIGKILL);
    if (lies("slow-sweep")) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep_for_ever();
    }
    /* As npud-executor does, whether it is to lie or to sweep. */
    if (!rights_take(&rights, why, sizeof(why)))
        _exit(11);
    if (sweeps)
        _exit(0);
    for (;;) {
        struct executor_request in;
        size_t n = 0;
        ssize_t size = fd_message_receive(EXECUTOR_SOCKET, &in, sizeof(in), fds, &n, 0);

        if (size != sizeof(in)) {
            if (lies("close-asked")) /* but it does not go */
                sleep_for_ever();
            _exit(0);
        }
        for (size_t i = n; i < 2; i++)
            fds[i] = -1;
        serve_one(&in, fds);
        for (size_t i = 0; i < 2; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        atomic_store(&handled, in.number);
    }
}
