#include "tests/common/share_cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/actor.h"

#define GUARD_NS UINT64_C(300000000000)
#define SIZE     200 /* bytes of each buffer: not a class of its own */
#define KEEP     512

struct cast_shared *cast;

static struct actor members[CAST_MEMBERS];

/* --- in members --- */

static int self = -1;
static acltdtBuf kept[KEEP];
static unsigned n_kept;
static uint32_t last_taken[CAST_QUEUES][CAST_MEMBERS];

int member_self(void)
{
    return self;
}

uint32_t queue_id(int64_t queue)
{
    return atomic_load(&cast->qid[queue]);
}

void keep(acltdtBuf buf)
{
    MUST(n_kept < KEEP);
    kept[n_kept++] = buf;
}

acltdtBuf kept_newest(void)
{
    MUST(n_kept > 0);
    return kept[n_kept - 1];
}

acltdtBuf unkeep(void)
{
    acltdtBuf buf = kept_newest();

    n_kept--;
    return buf;
}

static uint32_t *buffer_words(acltdtBuf buf)
{
    void *data;
    size_t size;

    OK(acltdtGetBufData(buf, &data, &size));
    MUST(size == SIZE);
    return data;
}

static void number_set(acltdtBuf buf, uint32_t number)
{
    OK(acltdtSetBufUserData(buf, &number, sizeof(number), 0));
}

static acltdtBuf buffer_make(uint32_t number)
{
    acltdtBuf buf;
    uint32_t *words;

    OK(acltdtAllocBuf(SIZE, ACL_TDT_NORMAL_MEM, &buf));
    words = buffer_words(buf);
    for (unsigned i = 0; i < SIZE / sizeof(*words); i++)
        words[i] = number;
    OK(acltdtSetBufDataLen(buf, SIZE));
    number_set(buf, number);
    return buf;
}

acltdtBuf message_make(unsigned n, uint32_t *number)
{
    acltdtBuf head;

    *number = atomic_fetch_add(&cast->next, 1) + 1;
    MUST((*number) < (CAST_MESSAGES));
    head = buffer_make(*number);
    for (unsigned i = 1; i < n; i++)
        OK(acltdtAppendBufChain(head, buffer_make(*number)));
    return head;
}

uint32_t message_renumber(acltdtBuf buf)
{
    uint32_t number = atomic_fetch_add(&cast->next, 1) + 1;

    MUST(number < CAST_MESSAGES);
    number_set(buf, number);
    return number;
}

/* The data of a buffer have one number all over, that of the message that they were made for. */
static void buffer_check(acltdtBuf buf)
{
    uint32_t *words = buffer_words(buf);
    size_t length;

    OK(acltdtGetBufDataLen(buf, &length));
    MUST(length == SIZE);
    for (unsigned i = 0; i < SIZE / sizeof(*words); i++)
        MUST_SAY(words[i] == words[0] && words[0] != 0, "word %u of a buffer: %u, first: %u", i,
                 words[i], words[0]);
}

uint32_t message_check(acltdtBuf buf)
{
    uint32_t n, number;
    acltdtBuf member;

    OK(acltdtGetBufChainNum(buf, &n));
    for (uint32_t i = 0; i < n; i++) {
        OK(acltdtGetBufFromChain(buf, i, &member));
        buffer_check(member);
    }
    OK(acltdtGetBufUserData(buf, &number, sizeof(number), 0));
    MUST(number > 0 && number < CAST_MESSAGES);
    return number;
}

void message_put_begins(int64_t queue, uint32_t number)
{
    struct cast_message *m = &cast->message[number];
    int32_t arrives = atomic_load(&cast->leads_to[queue]);

    atomic_store(&m->sender, self);
    atomic_store(&m->queue, arrives ? arrives : (int32_t)queue + 1);
}

void message_put_ends(uint32_t number, aclError result)
{
    struct cast_message *m = &cast->message[number];

    if (result != 0) {
        atomic_store(&m->queue, 0);
        return;
    }
    atomic_store(&m->put, 1);
    atomic_fetch_add(&cast->puts[self], 1);
}

aclError message_put(int64_t queue, acltdtBuf buf, uint32_t number, int32_t timeout)
{
    aclError r;

    message_put_begins(queue, number);
    r = acltdtEnqueue(queue_id(queue), buf, timeout);
    message_put_ends(number, r);
    return r;
}

void message_take_begins(int64_t queue)
{
    atomic_store(&cast->taking[self], (int32_t)queue + 1);
}

/* Where it was put, once, and of each sender in order. */
void message_take_ends(int64_t queue, uint32_t number)
{
    struct cast_message *m = &cast->message[number];
    int32_t sender = atomic_load(&m->sender);
    uint32_t *last = &last_taken[queue][sender];

    if (number > 0) {
        MUST((atomic_load(&m->queue)) == (queue + 1));
        MUST_SAY(atomic_fetch_add(&m->got, 1) == 0, "message %u comes twice", number);
        MUST_SAY(number > *last, "message %u of %d comes after %u", number, sender, *last);
        *last = number;
        atomic_fetch_add(&cast->takes[self], 1);
    }
    atomic_store(&cast->taking[self], 0);
}

aclError message_take(int64_t queue, int32_t timeout, acltdtBuf *buf, uint32_t *number)
{
    aclError r;

    message_take_begins(queue);
    r = acltdtDequeue(queue_id(queue), buf, timeout);
    *number = r == 0 ? message_check(*buf) : 0;
    message_take_ends(queue, *number);
    return r;
}

/* --- orders --- */

aclError order_create(const struct order *o, int64_t *value)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t depth = (uint32_t)o->b, qid;
    aclError r;

    (void)value;
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    r = acltdtCreateQueue(attr, &qid);
    if (r == 0)
        atomic_store(&cast->qid[o->a], qid);
    acltdtDestroyQueueAttr(attr);
    return r;
}

aclError order_destroy(const struct order *o, int64_t *value)
{
    (void)value;
    return acltdtDestroyQueue(queue_id(o->a));
}

aclError order_grant(const struct order *o, int64_t *value)
{
    (void)value;
    return acltdtGrantQueue(queue_id(o->a), (int32_t)o->b, (uint32_t)o->c, 0);
}

aclError order_attach(const struct order *o, int64_t *value)
{
    uint32_t rights = 0;
    aclError r = acltdtAttachQueue(queue_id(o->a), (int32_t)o->b, &rights);

    *value = rights;
    return r;
}

static aclError put_new(const struct order *o, int64_t *value, bool with_reference)
{
    uint32_t number;
    acltdtBuf buf = message_make((unsigned)o->b, &number), mine = NULL;
    aclError r;

    *value = number;
    if (with_reference)
        OK(acltdtCopyBufRef(buf, &mine));
    r = message_put(o->a, buf, number, (int32_t)o->c);
    if (r != 0)
        OK(acltdtFreeBuf(buf));
    if (mine)
        keep(mine);
    return r;
}

aclError order_put(const struct order *o, int64_t *value)
{
    return put_new(o, value, false);
}

aclError order_put_keep(const struct order *o, int64_t *value)
{
    return put_new(o, value, true);
}

aclError order_take(const struct order *o, int64_t *value)
{
    acltdtBuf buf;
    uint32_t number = 0;
    aclError r = message_take(o->a, (int32_t)o->b, &buf, &number);

    *value = number;
    if (r == 0)
        keep(buf);
    return r;
}

aclError order_take_free(const struct order *o, int64_t *value)
{
    aclError r = order_take(o, value);

    if (r == 0)
        OK(acltdtFreeBuf(unkeep()));
    return r;
}

aclError order_pass(const struct order *o, int64_t *value)
{
    acltdtBuf buf = kept_newest();
    uint32_t number = message_renumber(buf);
    aclError r = message_put(o->a, buf, number, (int32_t)o->c);

    *value = number;
    if (r == 0)
        unkeep();
    return r;
}

aclError order_drain(const struct order *o, int64_t *value)
{
    struct order one = {.a = o->a, .b = 0};
    int64_t number;
    aclError r;

    while ((r = order_take_free(&one, &number)) == 0)
        ++*value;
    return r == ACL_ERROR_RT_QUEUE_EMPTY ? 0 : r;
}

aclError order_check(const struct order *o, int64_t *value)
{
    (void)o;
    for (unsigned i = 0; i < n_kept; i++)
        message_check(kept[i]);
    *value = n_kept;
    return 0;
}

aclError order_drop(const struct order *o, int64_t *value)
{
    order_check(o, value);
    while (n_kept > 0)
        OK(acltdtFreeBuf(unkeep()));
    return 0;
}

aclError order_churn(const struct order *o, int64_t *value)
{
    acltdtBuf bufs[512];
    uint32_t *at[512];

    MUST(o->a <= 512);
    for (int i = 0; i < o->a; i++) {
        bufs[i] = buffer_make((uint32_t)i + 1);
        at[i] = buffer_words(bufs[i]);
    }
    for (int i = 0; i < o->a; i++) {
        buffer_check(bufs[i]);
        MUST((at[i][0]) == ((uint32_t)i + 1));
        OK(acltdtFreeBuf(bufs[i]));
    }
    *value = o->a;
    return 0;
}

/* --- members --- */

struct member_arg {
    int who;
    bool hello;
};

static int member_main(int fd, void *arg)
{
    struct member_arg m = *(struct member_arg *)arg;
    struct order o;

    /* The test watches over each answer; a member may live as long as the test. */
    alarm(0);
    self = m.who;
    OK(aclInit(NULL));
    if (m.hello)
        OK(aclrtSetDevice(0));
    while (recv(fd, &o, sizeof(o), 0) == sizeof(o)) {
        struct answer a = {0};

        a.code = o.fn(&o, &a.value);
        if (a.code != 0)
            snprintf(a.sentence, sizeof(a.sentence), "%s", aclGetRecentErrMsg());
        ck_assert_int_eq(send(fd, &a, sizeof(a), MSG_NOSIGNAL), sizeof(a));
    }
    OK(aclFinalize());
    return 0;
}

void cast_begin(void)
{
    cast = mmap(NULL, sizeof(*cast), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(cast, MAP_FAILED);
    for (int q = 0; q < CAST_QUEUES; q++)
        atomic_store(&cast->qid[q], UINT32_MAX);
}

void cast_finish(void)
{
    munmap(cast, sizeof(*cast));
}

void member_start(int who, bool hello)
{
    struct member_arg arg = {who, hello};

    actor_start(&members[who], member_main, &arg);
    atomic_store(&cast->pid[who], members[who].pid);
}

pid_t member_pid(int who)
{
    return members[who].pid;
}

void member_tell(int who, struct order o)
{
    ck_assert_msg(actor_tell(&members[who], &o, sizeof(o)), "member %d has ended", who);
}

bool member_answered(int who, int ms)
{
    return actor_answered(&members[who], ms);
}

struct answer member_answer(int who)
{
    struct answer a;

    ck_assert_msg(actor_answer(&members[who], &a, sizeof(a), GUARD_NS / 1000000) == sizeof(a),
                  "member %d does not answer, or has ended", who);
    return a;
}

struct answer member_do(int who, struct order o)
{
    member_tell(who, o);
    return member_answer(who);
}

int64_t member_does(int who, struct order o)
{
    struct answer a = member_do(who, o);

    ck_assert_msg(a.code == 0, "member %d: %d: %s", who, a.code, a.sentence);
    return a.value;
}

void member_fails(int who, aclError code, struct order o)
{
    struct answer a = member_do(who, o);

    ck_assert_msg(a.code == code, "member %d: %d, expected %d: %s", who, a.code, (int)code,
                  a.sentence);
}

void member_end(int who)
{
    actor_end(&members[who]);
}

void member_kill(int who)
{
    actor_kill(&members[who]);
}

void member_reap(int who)
{
    actor_reap_killed(&members[who]);
}

bool member_sleeps(int who, const char *call)
{
    const struct actor *a = &members[who];

    /* Listed before and after, so that what it sleeps in is not something else. */
    return npud_lists_sleeper(a->pid, call) && actor_state(a) == 'S' &&
           npud_lists_sleeper(a->pid, call) && actor_state(a) == 'S' && !member_answered(who, 0);
}

void member_await_sleep(int who, const char *call)
{
    uint64_t give_up = now_ns() + GUARD_NS;

    while (!member_sleeps(who, call)) {
        ck_assert_msg(!member_answered(who, 0), "member %d does not sleep in %s, but returns", who,
                      call);
        ck_assert_msg(now_ns() < give_up, "member %d does not come to sleep in %s", who, call);
    }
}

/* --- what npud has --- */

struct shared_left shared_left(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__POOLS);
    struct shared_left left = {.pools = r->n_pools};

    for (size_t i = 0; i < r->n_pools; i++) {
        const Npud__PoolRow *row = r->pools[i];

        left.buffers += row->held + row->sending + row->member + row->shared;
    }
    npud__report__free_unpacked(r, NULL);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__QUEUES);
    left.queues = r->n_queues;
    npud__report__free_unpacked(r, NULL);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__GRANTS);
    left.grants = r->n_grants;
    npud__report__free_unpacked(r, NULL);
    return left;
}

void shared_await(uint64_t buffers, size_t pools)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    struct shared_left left;

    do {
        left = shared_left();
    } while ((left.buffers != buffers || left.pools > pools) && now_ns() < give_up);
    if (left.buffers != buffers || left.pools > pools) {
        int status;

        ck_abort_msg("%llu buffers in %zu pools, expected %llu in %zu:\n%s",
                     (unsigned long long)left.buffers, left.pools, (unsigned long long)buffers,
                     pools, npuctl("pools", &status));
    }
}

void shared_expect_empty(void)
{
    struct shared_left left;

    shared_await(0, 0);
    left = shared_left();
    ck_assert_uint_eq(left.queues, 0);
    ck_assert_uint_eq(left.grants, 0);
}
