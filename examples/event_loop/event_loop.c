/*
 * NPU events in an event loop that has other things to do, here that of libevent. Nothing blocks
 * and nothing polls: each job ends with a record, an eventfd is written when that is complete
 * (aclnpudEventNotifyFd), and the loop calls job_done(). Meanwhile a timer ticks.
 *
 * One of the jobs belongs to another process: its IPC event comes as 64 bytes through a socket that
 * the loop reads, and the loop waits for it as for the others.
 */
#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "acl/acl_npud.h"
#include "common/example.h"

#define JOBS 3

struct job {
    const char *name;
    int fd; /* eventfd: the record is complete */
    aclrtStream stream;
    aclrtEvent event;
    struct event *on_done;
};

static struct event_base *loop;
static struct job jobs[JOBS + 1] = {{.name = "first"}, {.name = "second"}, {.name = "third"}};
static int running, ticks;

/* On a machine that is busy enough, all jobs may be done before the first tick. */
static void end_when_done(void)
{
    if (running == 0 && ticks > 0)
        event_base_loopbreak(loop);
}

/* --- jobs --- */

static void job_done(evutil_socket_t fd, short what, void *arg)
{
    struct job *job = arg;
    eventfd_t count;

    (void)what;
    if (eventfd_read(fd, &count) < 0)
        return; /* the file is non-blocking: nothing there after all */
    expect_complete(job->event, job->name);
    CHECK(aclrtDestroyEvent(job->event));
    if (job->stream)
        CHECK(aclrtDestroyStream(job->stream));
    /*
     * npud and the library have copies of the descriptor, which would stay in the loop's epoll set:
     * out with it before the close.
     */
    event_free(job->on_done);
    close(fd);
    running--;
    end_when_done();
}

/* Have the loop call job_done() when the latest record of the job's event is complete. */
static void job_watch(struct job *job)
{
    job->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    job->on_done = event_new(loop, job->fd, EV_READ | EV_PERSIST, job_done, job);
    if (job->fd < 0 || !job->on_done || event_add(job->on_done, NULL) < 0)
        fail("no memory or descriptors");
    CHECK(aclnpudEventNotifyFd(job->event, job->fd));
    running++;
}

/* Some work in a stream of its own, and a record behind it. */
static void job_start(struct job *job, uint64_t microseconds)
{
    CHECK(aclrtCreateStream(&job->stream));
    CHECK(aclrtCreateEventExWithFlag(&job->event, ACL_EVENT_SYNC));
    CHECK(aclnpudLaunchDelay(microseconds, ACL_SUCCESS, job->stream));
    CHECK(aclrtRecordEvent(job->event, job->stream));
    job_watch(job);
}

/* --- the other process --- */

static int remote_main(int peer)
{
    aclrtIpcEventHandle handle;
    aclrtStream stream;
    aclrtEvent event;
    char opened;

    set_name("remote");
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(1));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK(aclrtIpcGetEventHandle(event, &handle));
    CHECK(aclnpudLaunchDelay(120000, ACL_SUCCESS, stream));
    CHECK(aclrtRecordEvent(event, stream));
    if (write(peer, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        fail("no process wants the handle");
    CHECK(aclrtSynchronizeStream(stream));
    /* An event lives while a process has it open: not before the other one has may this one go. */
    if (read(peer, &opened, sizeof(opened)) != (ssize_t)sizeof(opened))
        fail("the other process has gone");
    CHECK(aclrtDestroyEvent(event));
    CHECK(aclrtResetDevice(1));
    CHECK(aclFinalize());
    return 0;
}

static void handle_came(evutil_socket_t fd, short what, void *arg)
{
    struct job *job = arg;
    aclrtIpcEventHandle handle;

    (void)what;
    if (read(fd, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        fail("the other process has gone");
    /* This process has not set device 1, and need not. */
    CHECK(aclnpudIpcOpenEventOnDevice(&job->event, handle, 1));
    if (write(fd, "", 1) != 1)
        fail("the other process has gone");
    say("handle of the other process's event came");
    running--; /* it counted for the handle */
    job_watch(job);
}

static void tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    ticks++;
    end_when_done();
}

static void run_loop(int peer)
{
    static const struct timeval interval = {.tv_usec = 10000};
    struct job *remote = &jobs[JOBS];
    struct event *on_handle, *on_tick;

    loop = event_base_new();
    on_handle = loop ? event_new(loop, peer, EV_READ, handle_came, remote) : NULL;
    on_tick = loop ? event_new(loop, -1, EV_PERSIST, tick, NULL) : NULL;
    if (!on_handle || !on_tick || event_add(on_handle, NULL) < 0 ||
        event_add(on_tick, &interval) < 0)
        fail("no event loop");
    remote->name = "remote";
    running = 1; /* the handle, and then its job */
    for (int i = 0; i < JOBS; i++)
        job_start(&jobs[i], (uint64_t)(JOBS - i) * 30000);
    event_base_dispatch(loop);
    event_free(on_handle);
    event_free(on_tick);
    event_base_free(loop);
}

int main(void)
{
    int pair[2], status = 0;
    pid_t pid;

    /* Fork first, and use the library after. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 || (pid = fork()) < 0)
        return EXIT_FAILURE;
    close(pair[pid == 0 ? 0 : 1]);
    if (pid == 0)
        return remote_main(pair[1]);
    set_name("loop");
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    run_loop(pair[0]);
    say("all done; ticks meanwhile: %d", ticks);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    if (waitpid(pid, &status, 0) != pid || status != 0)
        fail("FAILED");
    puts("event_loop: OK");
    return EXIT_SUCCESS;
}
