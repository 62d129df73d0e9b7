/* What programs of this kind have in some form: what must succeed, fail, or be so. */
#pragma once

#include <acl/acl.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void expect_code(aclError code, aclError wanted, const char *call, int line)
{
    const char *sentence;

    if (code == wanted)
        return;
    sentence = aclGetRecentErrMsg();
    fprintf(stderr, "line %d: %s gave %d and not %d: %s\n", line, call, code, wanted,
            sentence ? sentence : "no sentence");
    exit(1);
}

static inline void expect_truth(int truth, const char *text, int line)
{
    if (truth)
        return;
    fprintf(stderr, "line %d: not so: %s\n", line, text);
    exit(1);
}

#define CALL(call)        expect_code(call, ACL_SUCCESS, #call, __LINE__)
#define FAILS(code, call) expect_code(call, code, #call, __LINE__)
#define EXPECT(truth)     expect_truth(!!(truth), #truth, __LINE__)

/* Whole objects through a pipe; the end of the other process is a failure. */
#define GIVE(fd, object) EXPECT(write(fd, &(object), sizeof(object)) == (ssize_t)sizeof(object))
#define TAKE(fd, object) EXPECT(read(fd, &(object), sizeof(object)) == (ssize_t)sizeof(object))

static inline int ended_well(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs a function in another process, joined by two pipes: *in and *out are this side's ends. */
static inline pid_t start_child(void (*run)(int in, int out), int *in, int *out)
{
    int there[2], back[2];
    pid_t child;

    EXPECT(pipe(there) == 0 && pipe(back) == 0);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        run(there[0], back[1]);
        exit(aclFinalize());
    }
    close(there[0]);
    close(back[1]);
    *in = back[0];
    *out = there[1];
    return child;
}
