/*
 * A pipeline of three stages over four processes. Frames of 4 MiB travel through it in shared
 * buffers, and no byte of them is copied:
 *
 *                             +-> upper_in -> UPPER -> upper_out -+
 *     CAPTURE -> captured ----+                                   +----> results -> JOIN
 *        ^                    +-> lower_in -> LOWER -> lower_out -+                  |
 *        +------------------------------- empty <-----------------------------------+
 *
 * Where the picture forks and where it comes together, routes move the messages: npud does so, and
 * no process here. A route with two destinations gives the second a reference to the same frame, so
 * UPPER and LOWER read it at the same time, each its half, and write what they find to the user
 * data, of which each reference has its own. JOIN gets both references, drops one, and sends the
 * frame back to be filled again: FRAMES of them go round and round.
 *
 * usage: pipeline [FRAMES TO SEND]
 */
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "../common/example.h"
#include "acl/acl_tdt_queue.h"

#define FRAME    ((size_t)4 << 20)
#define WORDS    (FRAME / sizeof(uint64_t))
#define FRAMES   8 /* under way at the same time */
#define SEND     300
#define SEND_MAX 1000000
#define WAIT_MS  60000 /* longer than any wait here takes: only so that nothing hangs */
#define HELPERS  3
#define MAY_TAKE ACL_TDT_QUEUE_PERMISSION_DEQUEUE
#define MAY_PUT  ACL_TDT_QUEUE_PERMISSION_ENQUEUE

enum queue { CAPTURED, UPPER_IN, LOWER_IN, UPPER_OUT, LOWER_OUT, RESULTS, EMPTY, QUEUES };

static const char *const queue_names[QUEUES] = {"captured",  "upper_in", "lower_in", "upper_out",
                                                "lower_out", "results",  "empty"};

static const enum queue routes[][2] = {
    {CAPTURED, UPPER_IN}, {CAPTURED, LOWER_IN}, {UPPER_OUT, RESULTS}, {LOWER_OUT, RESULTS}};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))

/* What a helper is told by the process that starts it. */
struct plan {
    uint32_t queue[QUEUES];
    uint32_t send;
};

/* In the user data of a frame. */
struct note {
    uint32_t number;
    uint32_t half; /* 0 upper, 1 lower; of a result */
    uint64_t sum;  /* of the words of this half; of a result */
};

/* --- frames --- */

/*
 * Word i of frame n is word_of(n) + i, so that a word of another frame, or in another place, is
 * noticed.
 */
static uint64_t word_of(uint32_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t *frame_words(acltdtBuf frame)
{
    size_t room;
    void *data;

    CHECK(acltdtGetBufData(frame, &data, &room));
    if (room != FRAME)
        fail("a frame of %zu bytes", room);
    return data;
}

static void frame_fill(acltdtBuf frame, uint32_t number)
{
    struct note note = {.number = number};
    uint64_t *words = frame_words(frame), first = word_of(number);

    for (size_t i = 0; i < WORDS; i++)
        words[i] = first + i;
    CHECK(acltdtSetBufDataLen(frame, FRAME));
    CHECK(acltdtSetBufUserData(frame, &note, sizeof(note), 0));
}

/* Reads half a frame: every word is looked at, and added up. */
static void frame_read(acltdtBuf frame, struct note *note, uint32_t half)
{
    const uint64_t *words = frame_words(frame) + half * (WORDS / 2);
    uint64_t first = word_of(note->number) + half * (WORDS / 2), wrong = 0;

    note->half = half;
    note->sum = 0;
    for (size_t i = 0; i < WORDS / 2; i++) {
        wrong |= words[i] ^ (first + i);
        note->sum += words[i];
    }
    if (wrong != 0)
        fail("frame %u is not what was sent", note->number);
}

static uint64_t sum_of(uint32_t number, uint32_t half)
{
    uint64_t n = WORDS / 2, first = word_of(number) + half * n;

    return first * n + n * (n - 1) / 2;
}

/* --- the helpers: each begins with the queues that it has been granted, and nothing else --- */

static void attach(const struct plan *plan, enum queue queue, uint32_t wanted)
{
    uint32_t rights;

    CHECK(acltdtAttachQueue(plan->queue[queue], WAIT_MS, &rights));
    if (rights != wanted)
        fail("queue %s: rights %u in place of %u", queue_names[queue], rights, wanted);
}

static struct note note_of(acltdtBuf frame)
{
    struct note note;

    CHECK(acltdtGetBufUserData(frame, &note, sizeof(note), 0));
    return note;
}

static void half_run(const struct plan *plan, enum queue from, enum queue to, uint32_t half)
{
    acltdtBuf frame;
    struct note note;

    attach(plan, from, MAY_TAKE);
    attach(plan, to, MAY_PUT);
    for (uint32_t n = 0; n < plan->send; n++) {
        CHECK(acltdtDequeue(plan->queue[from], &frame, WAIT_MS));
        note = note_of(frame);
        if (note.number != n)
            fail("frame %u where %u was due", note.number, n);
        frame_read(frame, &note, half);
        CHECK(acltdtSetBufUserData(frame, &note, sizeof(note), 0));
        CHECK(acltdtEnqueue(plan->queue[to], frame, WAIT_MS));
    }
    say("%u frames read", plan->send);
}

static void upper_run(const struct plan *plan)
{
    half_run(plan, UPPER_IN, UPPER_OUT, 0);
}

static void lower_run(const struct plan *plan)
{
    half_run(plan, LOWER_IN, LOWER_OUT, 1);
}

/* Each half comes in its order; one of them may be ahead, by as many frames as there are. */
static void join_run(const struct plan *plan)
{
    acltdtBuf waiting[FRAMES] = {NULL}, frame;
    uint32_t next[2] = {0, 0};
    struct note note;

    attach(plan, RESULTS, MAY_TAKE);
    attach(plan, EMPTY, MAY_PUT);
    for (uint32_t n = 0; n < 2 * plan->send; n++) {
        CHECK(acltdtDequeue(plan->queue[RESULTS], &frame, WAIT_MS));
        note = note_of(frame);
        if (note.half > 1 || note.number != next[note.half]++)
            fail("half %u of frame %u is out of order", note.half, note.number);
        if (note.sum != sum_of(note.number, note.half))
            fail("frame %u: wrong sum of half %u", note.number, note.half);
        if (!waiting[note.number % FRAMES]) { /* the other half is still to come */
            waiting[note.number % FRAMES] = frame;
            continue;
        }
        CHECK(acltdtFreeBuf(waiting[note.number % FRAMES]));
        waiting[note.number % FRAMES] = NULL;
        CHECK(acltdtEnqueue(plan->queue[EMPTY], frame, WAIT_MS));
    }
    say("%u frames joined, every word as it was sent", plan->send);
}

static const struct helper {
    const char *name;
    void (*run)(const struct plan *plan);
    enum queue takes, puts;
} helpers[HELPERS] = {
    {"upper", upper_run, UPPER_IN, UPPER_OUT},
    {"lower", lower_run, LOWER_IN, LOWER_OUT},
    {"join", join_run, RESULTS, EMPTY},
};

_Noreturn static void helper_main(const struct helper *h, int fd)
{
    struct plan plan;
    int32_t pid;

    set_name("%s", h->name);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* if the first process fails */
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtDeviceGetBareTgid(&pid));
    if (write(fd, &pid, sizeof(pid)) != sizeof(pid) ||
        recv(fd, &plan, sizeof(plan), MSG_WAITALL) != sizeof(plan))
        fail("the first process is gone");
    h->run(&plan);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    exit(EXIT_SUCCESS);
}

/* --- the first process: starts the others, makes queues and routes, and is CAPTURE --- */

/* Before this process uses the library: sessions are not inherited. */
static int helper_start(const struct helper *h, pid_t *pid)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 || (*pid = fork()) < 0)
        fail("%s: %s", h->name, strerror(errno));
    if (*pid == 0) {
        close(fds[0]);
        helper_main(h, fds[1]);
    }
    close(fds[1]);
    return fds[0];
}

static void queues_make(struct plan *plan)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t depth = FRAMES;

    if (!attr)
        fail("no memory for the attributes of queues");
    CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    for (int i = 0; i < QUEUES; i++) {
        CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(queue_names[i]),
                                 &queue_names[i]));
        CHECK(acltdtCreateQueue(attr, &plan->queue[i]));
    }
    CHECK(acltdtDestroyQueueAttr(attr));
    say("%d queues made for %u frames each", QUEUES, depth);
}

static acltdtQueueRouteList *routes_bind(const struct plan *plan)
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route;

    for (size_t i = 0; i < ROUTES; i++) {
        route = acltdtCreateQueueRoute(plan->queue[routes[i][0]], plan->queue[routes[i][1]]);
        if (!list || !route)
            fail("no memory for a route");
        CHECK(acltdtAddQueueRoute(list, route));
        CHECK(acltdtDestroyQueueRoute(route)); /* the list has a copy */
    }
    CHECK(acltdtBindQueueRoutes(list));
    for (size_t i = 0; i < ROUTES; i++)
        say("route from %s to %s bound", queue_names[routes[i][0]], queue_names[routes[i][1]]);
    return list;
}

static void helper_tell(const struct helper *h, int fd, const struct plan *plan)
{
    int32_t pid;

    if (recv(fd, &pid, sizeof(pid), MSG_WAITALL) != sizeof(pid))
        fail("%s is gone", h->name);
    CHECK(acltdtGrantQueue(plan->queue[h->takes], pid, MAY_TAKE, 0));
    CHECK(acltdtGrantQueue(plan->queue[h->puts], pid, MAY_PUT, 0));
    if (write(fd, plan, sizeof(*plan)) != sizeof(*plan))
        fail("%s is gone", h->name);
    close(fd);
}

/* Frames that are not under way yet, or that have come back. */
static acltdtBuf frame_get(const struct plan *plan, uint32_t number)
{
    acltdtBuf frame;

    if (number < FRAMES)
        CHECK(acltdtAllocBuf(FRAME, ACL_TDT_NORMAL_MEM, &frame));
    else
        CHECK(acltdtDequeue(plan->queue[EMPTY], &frame, WAIT_MS));
    return frame;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void capture(const struct plan *plan)
{
    uint32_t under_way = plan->send < FRAMES ? plan->send : FRAMES;
    double seconds = now_s(), bytes = (double)plan->send * FRAME;
    acltdtBuf frame;

    for (uint32_t n = 0; n < plan->send; n++) {
        frame = frame_get(plan, n);
        frame_fill(frame, n);
        CHECK(acltdtEnqueue(plan->queue[CAPTURED], frame, WAIT_MS));
    }
    for (uint32_t n = 0; n < under_way; n++) {
        CHECK(acltdtDequeue(plan->queue[EMPTY], &frame, WAIT_MS));
        CHECK(acltdtFreeBuf(frame));
    }
    seconds = now_s() - seconds;
    say("%u frames of %zu MiB in %.2f s: %.0f frames/s, %.1f GB/s, written once and read once",
        plan->send, FRAME >> 20, seconds, plan->send / seconds, bytes / seconds * 1e-9);
}

static void clean_up(const struct plan *plan, acltdtQueueRouteList *list, const pid_t *pids)
{
    int status;

    for (int i = 0; i < HELPERS; i++)
        if (waitpid(pids[i], &status, 0) < 0 || status != 0)
            fail("%s has failed", helpers[i].name);
    CHECK(acltdtUnbindQueueRoutes(list));
    CHECK(acltdtDestroyQueueRouteList(list));
    for (int i = 0; i < QUEUES; i++)
        CHECK(acltdtDestroyQueue(plan->queue[i]));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    say("cleaned up");
}

int main(int argc, char **argv)
{
    struct plan plan = {.send = argc > 1 ? (uint32_t)atoi(argv[1]) : SEND};
    acltdtQueueRouteList *list;
    pid_t pids[HELPERS];
    int fds[HELPERS];

    set_name("capture");
    if (argc > 2 || plan.send < 1 || plan.send > SEND_MAX)
        fail("usage: pipeline [FRAMES TO SEND, 1 to %d]", SEND_MAX);
    for (int i = 0; i < HELPERS; i++)
        fds[i] = helper_start(&helpers[i], &pids[i]);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    queues_make(&plan);
    list = routes_bind(&plan);
    for (int i = 0; i < HELPERS; i++)
        helper_tell(&helpers[i], fds[i], &plan);
    capture(&plan);
    clean_up(&plan, list, pids);
    return 0;
}
