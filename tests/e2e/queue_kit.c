#include "queue_kit.h"

#include <dirent.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "proto/wire/npud.pb-c.h"

/* --- queues and buffers --- */

uint32_t create_queue(uint32_t depth)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t qid;

    ck_assert_ptr_nonnull(attr);
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    OK(acltdtCreateQueue(attr, &qid));
    OK(acltdtDestroyQueueAttr(attr));
    return qid;
}

acltdtBuf buffer_of(uint64_t value)
{
    acltdtBuf buf;

    OK(acltdtAllocBuf(sizeof(value), ACL_TDT_NORMAL_MEM, &buf));
    *buffer_data(buf) = value;
    OK(acltdtSetBufDataLen(buf, sizeof(value)));
    OK(acltdtSetBufUserData(buf, &value, sizeof(value), 0));
    return buf;
}

uint64_t *buffer_data(acltdtBuf buf)
{
    void *data;
    size_t size;

    OK(acltdtGetBufData(buf, &data, &size));
    ck_assert_uint_ge(size, sizeof(uint64_t));
    return data;
}

uint64_t buffer_value(acltdtBuf buf)
{
    uint64_t value;
    size_t length;

    OK(acltdtGetBufDataLen(buf, &length));
    ck_assert_uint_eq(length, sizeof(value));
    OK(acltdtGetBufUserData(buf, &value, sizeof(value), 0));
    return value;
}

acltdtBuf chain_of(uint64_t first, uint32_t n)
{
    acltdtBuf head = buffer_of(first);

    for (uint32_t i = 1; i < n; i++)
        OK(acltdtAppendBufChain(head, buffer_of(first + i)));
    return head;
}

void expect_chain(acltdtBuf head, uint64_t first, uint32_t n)
{
    uint32_t found;

    OK(acltdtGetBufChainNum(head, &found));
    ck_assert_uint_eq(found, n);
    for (uint32_t i = 0; i < n; i++) {
        acltdtBuf member;

        OK(acltdtGetBufFromChain(head, i, &member));
        ck_assert_uint_eq(buffer_value(member), first + i);
        ck_assert_uint_eq(*buffer_data(member), first + i);
    }
}

uint64_t take_value(uint32_t qid, int32_t timeout)
{
    acltdtBuf buf;
    uint64_t value;

    OK(acltdtDequeue(qid, &buf, timeout));
    value = buffer_value(buf);
    ck_assert_uint_eq(*buffer_data(buf), value);
    OK(acltdtFreeBuf(buf));
    return value;
}

void await_buffers(uint32_t n)
{
    EVENTUALLY(npud_buffers() == n, "%u buffers, not %u", npud_buffers(), n);
}

/* --- sleeping threads --- */

/* The library's futexes are shared; those of the C library are private, or have a clock. */
static int is_asleep(pid_t pid, const char *tid)
{
    unsigned long number, word, op;
    char path[300];
    int asleep;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/task/%s/syscall", (int)pid, tid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    asleep = fscanf(f, "%lu %lx %lx", &number, &word, &op) == 3 && number == SYS_futex &&
             op == FUTEX_WAIT_BITSET;
    fclose(f);
    return asleep;
}

static unsigned count_asleep(pid_t pid)
{
    unsigned n = 0;
    struct dirent *d;
    char path[64];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    while ((d = readdir(dir)))
        if (d->d_name[0] != '.')
            n += (unsigned)is_asleep(pid, d->d_name);
    closedir(dir);
    return n;
}

void await_asleep(pid_t pid, unsigned n)
{
    EVENTUALLY(count_asleep(pid) == n, "%u threads of %d sleep, not %u", count_asleep(pid),
               (int)pid, n);
}
