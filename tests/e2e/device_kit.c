#include "device_kit.h"

#include <stdio.h>
#include <string.h>

struct outcome failed;

bool kit_did(int code, const char *call)
{
    if (code == 0)
        return true;
    failed.code = code;
    failed.call = call;
    snprintf(failed.text, sizeof(failed.text), "%s", aclGetRecentErrMsg());
    return false;
}

bool kit_open(struct kit *k)
{
    return DID(aclrtSetDevice(0)) && DID(aclrtCreateStream(&k->stream)) &&
           DID(aclrtMallocHost((void **)&k->to, KIT_BLOCK)) &&
           DID(aclrtMallocHost((void **)&k->from, KIT_BLOCK)) &&
           DID(aclrtMalloc(&k->device[0], KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)) &&
           DID(aclrtMalloc(&k->device[1], KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
}

void kit_open_well(struct kit *k)
{
    ck_assert_msg(kit_open(k), "%s: %d: %s", failed.call, failed.code, failed.text);
}

bool kit_round(struct kit *k, unsigned number)
{
    uint32_t *to = (uint32_t *)k->to, *from = (uint32_t *)k->from;

    for (unsigned i = 0; i < KIT_BLOCK / 4; i++)
        to[i] = number * 2654435761u + i * 40503u;
    memset(from, 0, KIT_BLOCK);
    if (!DID(aclrtMemcpyAsync(k->device[0], KIT_BLOCK, to, KIT_BLOCK, ACL_MEMCPY_HOST_TO_DEVICE,
                              k->stream)) ||
        !DID(aclrtMemcpyAsync(k->device[1], KIT_BLOCK, k->device[0], KIT_BLOCK,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, k->stream)) ||
        !DID(aclrtMemcpyAsync(from, KIT_BLOCK, k->device[1], KIT_BLOCK, ACL_MEMCPY_DEVICE_TO_HOST,
                              k->stream)) ||
        !DID(aclrtSynchronizeStream(k->stream)))
        return false;
    ck_assert_msg(memcmp(to, from, KIT_BLOCK) == 0, "round %u: other bytes than were copied",
                  number);
    return true;
}

void kit_reset(void)
{
    aclError r = aclrtResetDevice(0);

    ck_assert_msg(r == 0 || r == ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "aclrtResetDevice: %d: %s", r,
                  aclGetRecentErrMsg());
}

void kit_expect_new_life(void)
{
    struct kit k = {0};

    kit_reset();
    ck_assert_msg(kit_open(&k), "after a reset: %s: %d: %s", failed.call, failed.code, failed.text);
    for (unsigned i = 0; i < 10; i++)
        ck_assert_msg(kit_round(&k, i), "%s: %s", failed.call, failed.text);
}

/* --- honest sessions --- */

static struct shared {
    _Atomic bool stop;
    _Atomic unsigned rounds[COPIERS];
} * shared;

static int copy_until_stopped(void *arg)
{
    struct kit k = {0};
    unsigned i = 0;

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    for (; !shared->stop; shared->rounds[0] = ++i)
        ck_assert_msg(kit_round(&k, i), "honest, round %u: %s: %s", i, failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

pid_t honest_start(void)
{
    pid_t pid;

    shared = child_share(sizeof(*shared));
    pid = child_start(copy_until_stopped, NULL);
    EVENTUALLY(shared->rounds[0] > 3, "the honest session does not copy");
    return pid;
}

void honest_stop(pid_t pid)
{
    unsigned before = shared->rounds[0];

    EVENTUALLY(shared->rounds[0] > before + 3, "the honest session does not go on");
    shared->stop = true;
    child_expect_ok(pid);
}

/* --- sessions that are told of losses --- */

/* Right bytes, or a loss that is named, after which it begins anew. */
static bool copy_or_be_told(struct kit *k, bool *open, unsigned round)
{
    if (!*open) {
        *k = (struct kit){0};
        *open = kit_open(k);
    }
    if (*open && kit_round(k, round))
        return true;
    ck_assert_msg(failed.code == KIT_LOSS || failed.code == KIT_NOT_BEGUN, "%s: %d: %s",
                  failed.call, failed.code, failed.text);
    ck_assert_msg(failed.text[0] != '\0', "%s: no sentence", failed.call);
    *open = false;
    kit_reset();
    return false;
}

static int copy_and_lose(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg, right = 0, losses = 0;
    struct kit k;
    bool open = false;

    OK(aclInit(NULL));
    while (!shared->stop) {
        bool well = copy_or_be_told(&k, &open, right * COPIERS + me);

        right += well;
        losses += !well;
        shared->rounds[me] = right;
    }
    printf("copier %u: %u rounds right, %u losses\n", me, right, losses);
    fflush(stdout);
    OK(aclFinalize());
    return 0;
}

static unsigned all_rounds(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < COPIERS; i++)
        n += shared->rounds[i];
    return n;
}

void copiers_run(unsigned times, void (*disturb)(void *arg), void *arg)
{
    pid_t pids[COPIERS];

    shared = child_share(sizeof(*shared));
    for (uintptr_t i = 0; i < COPIERS; i++)
        pids[i] = child_start(copy_and_lose, (void *)i);
    for (unsigned i = 0; i < times; i++) {
        unsigned before = all_rounds();

        EVENTUALLY(all_rounds() > before + 20, "round %u: nothing is copied", i);
        disturb(arg);
    }
    shared->stop = true;
    for (unsigned i = 0; i < COPIERS; i++)
        child_expect_ok(pids[i]);
}
