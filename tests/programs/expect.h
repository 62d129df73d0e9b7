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
