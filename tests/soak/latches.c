/*
 * Notifies and count notifies of a process of the soak test. Each record releases one wait, and
 * comes after the wait before it, so that all of them are clear at the end of a round.
 */
#include "tests/soak/worker.h"

#define IMPORT_FLAGS ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT

static struct {
    aclrtNotify own[LATCHES]; /* or count notify */
    aclrtNotify other[PROCESSES][LATCHES_SHARED];
} latch;

static bool is_count(unsigned l)
{
    return l == LATCH_COUNT || l == LATCH_COUNT + 1;
}

static aclrtStream stream_for(const struct op *op)
{
    unsigned device = op->service ? device_of_latch(op->var) : device_of(op->stream);

    enter(device);
    return op->service ? NULL : me.stream[op->stream];
}

static void count_record(const struct op *op, aclrtStream stream)
{
    static const aclrtCntNotifyRecordMode modes[] = {
        ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE,
        ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE};
    aclrtCntNotifyRecordInfo info = {.mode = modes[op->variant], .value = (uint32_t)op->arg};

    EXPECT(aclrtCntNotifyRecord(latch.own[op->var], stream, &info));
}

void latches_record(const struct op *op)
{
    aclrtStream stream = stream_for(op);

    if (is_count(op->var))
        count_record(op, stream);
    else if (op->from == me.p)
        EXPECT(aclrtRecordNotify(latch.own[op->var], stream));
    else
        EXPECT(aclrtRecordNotify(latch.other[op->from][op->var - LATCH_SHARED], stream));
}

static void count_wait(const struct op *op, aclrtStream stream)
{
    static const aclrtCntNotifyWaitMode modes[] = {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE,
                                                   ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE,
                                                   ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE,
                                                   ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE};
    aclrtCntNotifyWaitInfo info = {
        .mode = modes[op->variant], .value = (uint32_t)op->arg, .isClear = 1};

    if (info.mode == ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE)
        info.value--;
    EXPECT(aclrtCntNotifyWaitWithTimeout(latch.own[op->var], stream, &info));
}

void latches_wait(const struct op *op)
{
    static const uint32_t limits[] = {0, UINT32_MAX, 1000, 0};
    aclrtStream stream = stream_for(op);

    if (is_count(op->var))
        count_wait(op, stream);
    else
        EXPECT(aclrtWaitAndResetNotify(latch.own[op->var], stream, limits[op->variant]));
}

/* --- sharing --- */

void latches_export(const struct op *op)
{
    int32_t pid = 0;

    enter(0);
    for (unsigned i = 0; i < LATCHES_SHARED; i++)
        EXPECT(aclrtNotifyGetExportKey(
            latch.own[LATCH_SHARED + i], me.common->key[me.p][i], sizeof(me.common->key[me.p][i]),
            i == LATCH_LISTED ? ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT
                              : ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    EXPECT(aclrtDeviceGetBareTgid(&pid));
    me.common->pid[me.p] = pid;
}

void latches_admit(const struct op *op)
{
    enter(0);
    EXPECT(aclrtNotifySetImportPid(latch.own[LATCH_SHARED + LATCH_LISTED],
                                   &me.common->pid[op->from], 1));
}

void latches_import_refused(const struct op *op)
{
    aclrtNotify notify;

    enter(0);
    EXPECT(aclrtNotifyImportByKey(&notify, me.common->key[op->from][LATCH_LISTED], IMPORT_FLAGS));
}

/* Those of a process that took another one's place, too. */
void latches_import(const struct op *op)
{
    for (unsigned i = 0; i < LATCHES_SHARED; i++) {
        aclrtNotify *notify = &latch.other[op->from][i];

        enter((me.p + i) % DEVICES);
        if (*notify)
            EXPECT(aclrtDestroyNotify(*notify));
        EXPECT(aclrtNotifyImportByKey(notify, me.common->key[op->from][i], IMPORT_FLAGS));
    }
}

/* --- life --- */

void latches_start(void)
{
    for (unsigned l = 0; l < LATCHES; l++) {
        enter(device_of_latch(l));
        if (is_count(l))
            MUST(aclrtCntNotifyCreate(&latch.own[l], 0));
        else
            MUST(aclrtCreateNotify(&latch.own[l], ACL_NOTIFY_DEFAULT));
    }
}

void latches_stop(void)
{
    for (unsigned l = 0; l < LATCHES; l++)
        MUST(is_count(l) ? aclrtCntNotifyDestroy(latch.own[l]) : aclrtDestroyNotify(latch.own[l]));
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < LATCHES_SHARED; i++)
            if (latch.other[p][i])
                MUST(aclrtDestroyNotify(latch.other[p][i]));
}
