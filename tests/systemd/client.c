/*
 * The client of check-systemd. usage: client use | hold | fork | babble | fill
 *
 * use:    work a little; print the first error and its sentence and exit with 1, or print "worked"
 * hold:   print "holding", wait on a stream until npud ends, print error and sentence, connect anew
 *         and work
 * fork:   keep a session, in a process whose forked child has the socket open too; print both pids;
 *         neither ends by itself
 * fill:   have an engine fill 1 GiB of device memory, look at some of it, and print "filled"
 * babble: send what is no packet of the protocol, print the own pid, and exit when npud has hung up
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"

#define HOUR_US 3600000000
#define FILL    ((size_t)1 << 30)

static aclrtStream stream;

/* Prints what went wrong, if anything did. */
static bool is_ok(aclError error)
{
    if (error != ACL_SUCCESS)
        printf("%d %s\n", error, aclGetRecentErrMsg());
    return error == ACL_SUCCESS;
}

static bool open_session(void)
{
    return is_ok(aclInit(NULL)) && is_ok(aclrtSetDevice(0)) && is_ok(aclrtCreateStream(&stream));
}

static bool work_and_end(void)
{
    aclrtEvent event;

    return is_ok(aclrtCreateEvent(&event)) && is_ok(aclnpudLaunchDelay(1, 0, stream)) &&
           is_ok(aclrtRecordEvent(event, stream)) && is_ok(aclrtSynchronizeEvent(event)) &&
           is_ok(aclrtDestroyEvent(event)) && is_ok(aclrtDestroyStream(stream)) &&
           is_ok(aclrtResetDevice(0)) && is_ok(aclFinalize());
}

static int use_npu(void)
{
    if (!open_session() || !work_and_end())
        return 1;
    puts("worked");
    return 0;
}

static int hold_stream(void)
{
    if (!open_session() || !is_ok(aclnpudLaunchDelay(HOUR_US, 0, stream)))
        return 1;
    puts("holding");
    if (is_ok(aclrtSynchronizeStream(stream)))
        return 1;
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return use_npu();
}

static int fork_and_hold(void)
{
    pid_t child;

    if (!open_session())
        return 1;
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    printf("%d %d\n", (int)getpid(), (int)child);
    pause();
    return 0;
}

/* The engine is a thread of npud: the pages are to be this process's all the same. */
static int fill_memory(void)
{
    unsigned char *memory;

    if (!open_session() || !is_ok(aclrtMalloc((void **)&memory, FILL, ACL_MEM_MALLOC_HUGE_FIRST)) ||
        !is_ok(aclrtMemsetAsync(memory, FILL, 7, FILL, stream)) ||
        !is_ok(aclrtSynchronizeStream(stream)))
        return 1;
    for (size_t at = 0; at < FILL; at += FILL / 1024)
        if (memory[at] != 7) {
            printf("byte %zu is %d\n", at, memory[at]);
            return 1;
        }
    if (!is_ok(aclrtFree(memory)) || !work_and_end())
        return 1;
    puts("filled");
    return 0;
}

static int send_noise(void)
{
    static const char noise[] = "\xff\xff\xff\xffthis is not protobuf";
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/run/npud/npud.sock"};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char answer[4096];

    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        send(fd, noise, sizeof(noise), 0) < 0) {
        perror("babble");
        return 1;
    }
    while (recv(fd, answer, sizeof(answer), 0) > 0)
        ;
    printf("%d\n", (int)getpid());
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"use", use_npu},       {"hold", hold_stream}, {"fork", fork_and_hold},
        {"babble", send_noise}, {"fill", fill_memory},
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    fputs("usage: client use | hold | fork | babble | fill\n", stderr);
    return 2;
}
