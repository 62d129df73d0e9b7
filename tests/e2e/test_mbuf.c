/*
 * Shared buffers within one process, in both families of calls: what each call does and refuses,
 * chains and references, threads, sizes, copies, and what becomes of the memory. What travels
 * between processes is in test_queue*.c.
 *
 * Runs long: 17 s.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_bytes.h"
#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/chance.h"
#include "tests/common/need.h"

#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define INTERNAL ACL_ERROR_RT_DRV_INTERNAL_ERROR
#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)
#define GIB      ((size_t)1 << 30)

/* What a sanitizer makes slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 10
#else
#define SLOW 1
#endif
#ifdef __SANITIZE_THREAD__
#define FORK false
#else
#define FORK true
#endif

/* --- both families --- */

static aclError alloc_tdt(acltdtBuf *buf, size_t size)
{
    return acltdtAllocBuf(size, ACL_TDT_NORMAL_MEM, buf);
}

static const struct family {
    aclError (*alloc)(acltdtBuf *buf, size_t size);
    aclError (*free)(acltdtBuf buf);
    aclError (*data)(const acltdtBuf buf, void **data, size_t *size);
    aclError (*set_length)(acltdtBuf buf, size_t len);
    aclError (*get_length)(acltdtBuf buf, size_t *len);
    aclError (*set_user)(acltdtBuf buf, const void *data, size_t size, size_t offset);
    aclError (*get_user)(const acltdtBuf buf, void *data, size_t size, size_t offset);
    aclError (*copy)(const acltdtBuf buf, acltdtBuf *copy);
    aclError (*append)(acltdtBuf head, acltdtBuf buf);
    aclError (*num)(acltdtBuf head, uint32_t *num);
    aclError (*at)(acltdtBuf head, uint32_t index, acltdtBuf *buf);
} families[] = {
    {alloc_tdt, acltdtFreeBuf, acltdtGetBufData, acltdtSetBufDataLen, acltdtGetBufDataLen,
     acltdtSetBufUserData, acltdtGetBufUserData, acltdtCopyBufRef, acltdtAppendBufChain,
     acltdtGetBufChainNum, acltdtGetBufFromChain},
    {aclrtAllocBuf, aclrtFreeBuf, aclrtGetBufData, aclrtSetBufDataLen, aclrtGetBufDataLen,
     aclrtSetBufUserData, aclrtGetBufUserData, aclrtCopyBufRef, aclrtAppendBufChain,
     aclrtGetBufChainNum, aclrtGetBufFromChain},
};
#define FAMILIES 2
static const struct family *f = &families[0];

static void set_up_test(void)
{
    npud_setup();
    OK(aclInit(NULL));
}

/* --- helpers --- */

static acltdtBuf alloc_buffer(size_t size)
{
    acltdtBuf buf = NULL;

    OK(f->alloc(&buf, size));
    ck_assert_ptr_nonnull(buf);
    return buf;
}

static unsigned char *data_of(acltdtBuf buf)
{
    void *data = NULL;
    size_t size;

    OK(f->data(buf, &data, &size));
    return data;
}

static size_t room_of(acltdtBuf buf)
{
    void *data;
    size_t size = 0;

    OK(f->data(buf, &data, &size));
    return size;
}

static size_t length_of(acltdtBuf buf)
{
    size_t len = 4711;

    OK(f->get_length(buf, &len));
    return len;
}

static uint32_t count_of(acltdtBuf buf)
{
    uint32_t n = 4711;

    OK(f->num(buf, &n));
    return n;
}

static acltdtBuf get_member(acltdtBuf head, uint32_t index)
{
    acltdtBuf buf = NULL;

    OK(f->at(head, index, &buf));
    return buf;
}

static acltdtBuf copy_of(acltdtBuf buf)
{
    acltdtBuf copy = NULL;

    OK(f->copy(buf, &copy));
    return copy;
}

static acltdtBuf make_chain(uint32_t n, size_t size)
{
    acltdtBuf head = alloc_buffer(size);

    for (uint32_t i = 1; i < n; i++)
        OK(f->append(head, alloc_buffer(size)));
    return head;
}

static uint64_t user_mark(acltdtBuf buf)
{
    uint64_t mark = 4711;

    OK(f->get_user(buf, &mark, sizeof(mark), 0));
    return mark;
}

static void mark_user(acltdtBuf buf, uint64_t mark)
{
    OK(f->set_user(buf, &mark, sizeof(mark), 0));
}

static uint64_t pool_memory(void)
{
    return npud_used("mbuf_memory");
}

/* That this process, the only session, has sent. */
static uint64_t requests_sent(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__SESSIONS);
    uint64_t n;

    ck_assert_uint_eq(report->n_sessions, 1);
    n = report->sessions[0]->requests;
    npud__report__free_unpacked(report, NULL);
    return n;
}

/* What may stay of a pool that is not used: POOL_KEPT. */
#define KEPT MIB

/* npud looks for what is free in its own time. */
static void await_memory_below(uint64_t bytes)
{
    EVENTUALLY(pool_memory() < bytes, "%llu bytes left in pools",
               (unsigned long long)pool_memory());
}

/* Every call on a handle refuses it, in words; nothing is written to results. */
static void expect_refused(acltdtBuf buf, const char *words)
{
    acltdtBuf good = alloc_buffer(100), out = good;
    void *data = &data;
    size_t size = 4711, len = 4711;
    uint32_t n = 4711;
    char user[8] = "unwrit.";

    FAILS_SAYING(PARAM, words, f->free(buf));
    FAILS_SAYING(PARAM, words, f->data(buf, &data, &size));
    FAILS_SAYING(PARAM, words, f->set_length(buf, 1));
    FAILS_SAYING(PARAM, words, f->get_length(buf, &len));
    FAILS_SAYING(PARAM, words, f->set_user(buf, user, 8, 0));
    FAILS_SAYING(PARAM, words, f->get_user(buf, user, 8, 0));
    FAILS_SAYING(PARAM, words, f->copy(buf, &out));
    FAILS_SAYING(PARAM, words, f->append(buf, good));
    FAILS_SAYING(PARAM, words, f->append(good, buf));
    FAILS_SAYING(PARAM, words, f->num(buf, &n));
    FAILS_SAYING(PARAM, words, f->at(buf, 0, &out));
    ck_assert_ptr_eq(data, &data);
    ck_assert_ptr_eq(out, good);
    ck_assert(size == 4711 && len == 4711 && n == 4711);
    ck_assert_str_eq(user, "unwrit.");
    ck_assert_uint_eq(count_of(good), 1);
    OK(f->free(good));
}

/* --- one buffer --- */

/* Checklist 1 and 2. */
START_TEST(fresh_buffer)
{
    static const size_t sizes[] = {1, 63, 64, 100, 127, 128, 129, 1000, 4096, 65536, 100000, MIB};
    char user[96], zero[96] = {0};

    f = &families[_i];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        acltdtBuf buf = alloc_buffer(sizes[i]);

        ck_assert_uint_eq(room_of(buf), sizes[i]);
        ck_assert_uint_eq(length_of(buf), 0);
        memset(user, 1, sizeof(user));
        OK(f->get_user(buf, user, 96, 0));
        ck_assert_mem_eq(user, zero, 96);
        ck_assert_uint_eq(count_of(buf), 1);
        ck_assert_ptr_eq(get_member(buf, 0), buf);
        memset(data_of(buf), 0xa5, sizes[i]);
        OK(f->set_length(buf, sizes[i]));
        mark_user(buf, i);
        /* The next has the same slot, as often as not, and none of this. */
        OK(f->free(buf));
    }
}
END_TEST

START_TEST(alloc_errors)
{
    acltdtBuf buf = &buf;
    const acltdtBuf before = buf;

    FAILS(ACL_ERROR_INVALID_PARAM, acltdtAllocBuf(1, 2, &buf));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "type", acltdtAllocBuf(0, 77, NULL));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "buf", acltdtAllocBuf(0, ACL_TDT_NORMAL_MEM, NULL));
    FAILS(PARAM, acltdtAllocBuf(0, ACL_TDT_NORMAL_MEM, &buf));
    FAILS_SAYING(PARAM, "4 GiB", acltdtAllocBuf(4 * GIB + 1, ACL_TDT_NORMAL_MEM, &buf));
    FAILS_SAYING(PARAM, "4 GiB", acltdtAllocBuf(SIZE_MAX, ACL_TDT_DVPP_MEM, &buf));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtAllocBuf(NULL, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtAllocBuf(NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtAllocBuf(&buf, 0));
    FAILS_SAYING(PARAM, "4 GiB", aclrtAllocBuf(&buf, 4 * GIB + 1));
    ck_assert_ptr_eq(buf, before);
    OK(acltdtAllocBuf(1, ACL_TDT_DVPP_MEM, &buf));
    ck_assert_uint_eq((uintptr_t)data_of(buf) % 128, 0);
    OK(aclrtFreeBuf(buf)); /* the families are one */
}
END_TEST

START_TEST(null_arguments)
{
    acltdtBuf buf, out;
    void *data;
    size_t size;
    uint32_t n;

    f = &families[_i];
    buf = alloc_buffer(10);
    FAILS(ACL_ERROR_INVALID_PARAM, f->free(NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, f->data(NULL, &data, &size));
    FAILS(ACL_ERROR_INVALID_PARAM, f->data(buf, NULL, &size));
    FAILS(ACL_ERROR_INVALID_PARAM, f->data(buf, &data, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, f->set_length(NULL, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_length(NULL, &size));
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_length(buf, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, f->set_user(NULL, &n, 1, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, f->set_user(buf, NULL, 1, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_user(NULL, &n, 1, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_user(buf, NULL, 1, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, f->copy(NULL, &out));
    FAILS(ACL_ERROR_INVALID_PARAM, f->copy(buf, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, f->append(NULL, buf));
    FAILS(ACL_ERROR_INVALID_PARAM, f->append(buf, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, f->num(NULL, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, f->num(buf, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, f->at(NULL, 0, &out));
    FAILS(ACL_ERROR_INVALID_PARAM, f->at(buf, 0, NULL));
    OK(f->free(buf));
}
END_TEST

START_TEST(data_length)
{
    acltdtBuf buf;

    f = &families[_i];
    buf = alloc_buffer(1000);
    OK(f->set_length(buf, 1));
    ck_assert_uint_eq(length_of(buf), 1);
    OK(f->set_length(buf, 999));
    OK(f->set_length(buf, 1000));
    ck_assert_uint_eq(length_of(buf), 1000);
    FAILS(PARAM, f->set_length(buf, 1001)); /* the slot would have room */
    FAILS(PARAM, f->set_length(buf, SIZE_MAX));
    FAILS(PARAM, f->set_length(buf, 0));
    ck_assert_uint_eq(length_of(buf), 1000);
    ck_assert_uint_eq(room_of(buf), 1000);
    OK(f->free(buf));
}
END_TEST

/* Checklist 3. */
START_TEST(user_data)
{
    unsigned char in[96], out[97];
    acltdtBuf buf;

    f = &families[_i];
    buf = alloc_buffer(10);
    for (int i = 0; i < 96; i++)
        in[i] = (unsigned char)(i + 1);
    OK(f->set_user(buf, in, 3, 50));
    memset(out, 9, sizeof(out));
    OK(f->get_user(buf, out, 96, 0));
    for (int i = 0; i < 96; i++)
        ck_assert_uint_eq(out[i], i >= 50 && i < 53 ? i - 49 : 0);
    OK(f->set_user(buf, in, 96, 0));
    OK(f->set_user(buf, in, 1, 95));
    OK(f->get_user(buf, out, 96, 0));
    ck_assert_mem_eq(out, in, 95);
    ck_assert_uint_eq(out[95], 1);
    ck_assert_uint_eq(out[96], 9);
    OK(f->get_user(buf, out, 2, 94));
    ck_assert_uint_eq(out[0], 95);
    ck_assert_uint_eq(out[1], 1);

    FAILS(ACL_ERROR_INVALID_PARAM, f->set_user(buf, in, 1, 96));
    FAILS(ACL_ERROR_INVALID_PARAM, f->set_user(buf, in, 97, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, f->set_user(buf, in, SIZE_MAX, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, f->set_user(buf, in, 1, SIZE_MAX));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "97", f->set_user(NULL, NULL, 97, 0)); /* tested first */
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_user(buf, out, 1, 96));
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_user(buf, out, 97, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, f->get_user(buf, out, SIZE_MAX, 1));
    FAILS_SAYING(ACL_ERROR_INVALID_PARAM, "97", f->get_user(NULL, NULL, 1, 97));
    OK(f->set_user(buf, in, 0, 0));
    OK(f->set_user(buf, in, 0, 95));
    FAILS(ACL_ERROR_FAILURE, f->set_user(buf, in, 0, 96));
    FAILS(ACL_ERROR_FAILURE, f->get_user(buf, out, 0, 0));
    FAILS(ACL_ERROR_FAILURE, f->get_user(buf, out, 0, 96));
    OK(f->get_user(buf, out, 96, 0));
    ck_assert_mem_eq(out, in, 95);
    OK(f->free(buf));
}
END_TEST

/* --- handles that are none --- */

START_TEST(freed_buffers_are_refused)
{
    acltdtBuf buf, again[64];

    f = &families[_i];
    buf = alloc_buffer(200);
    OK(f->free(buf));
    expect_refused(buf, "freed");
    /* Also when the slot is in use again. */
    for (int i = 0; i < 64; i++)
        again[i] = alloc_buffer(200);
    expect_refused(buf, "freed");
    for (int i = 0; i < 64; i++) {
        ck_assert_ptr_ne(again[i], buf);
        OK(f->free(again[i]));
    }
}
END_TEST

START_TEST(freed_big_buffers_are_refused)
{
    acltdtBuf buf, other;

    f = &families[_i];
    buf = alloc_buffer(3 * MIB);
    OK(f->free(buf));
    expect_refused(buf, "freed");
    await_memory_below(MIB);
    expect_refused(buf, "buffer"); /* the segment is gone */
    other = alloc_buffer(3 * MIB);
    expect_refused(buf, "buffer");
    OK(f->free(other));
}
END_TEST

START_TEST(what_is_no_handle_is_refused)
{
    acltdtBuf buf;
    uint64_t good;

    f = &families[_i];
    expect_refused((acltdtBuf)1, "not a buffer");
    expect_refused((acltdtBuf)&buf, "not a buffer");
    expect_refused((acltdtBuf)-1, "not a buffer");
    buf = alloc_buffer(10);
    good = (uint64_t)(uintptr_t)buf;
    expect_refused(data_of(buf), "not a buffer");
    expect_refused((acltdtBuf)(uintptr_t)(good + (UINT64_C(1) << 32)), "buffer"); /* generation */
    expect_refused((acltdtBuf)(uintptr_t)(good + 1), "buffer");                /* its neighbour */
    expect_refused((acltdtBuf)(uintptr_t)(good + 0xfff0), "buffer");           /* no slot */
    expect_refused((acltdtBuf)(uintptr_t)(good + 0x12340000), "not a buffer"); /* no segment */
    for (int bit = 0; bit < 64; bit++)
        expect_refused((acltdtBuf)(uintptr_t)(good ^ UINT64_C(1) << bit), "buffer");
    OK(f->free(buf));
}
END_TEST

START_TEST(before_the_first_buffer)
{
    f = &families[_i];
    FAILS(PARAM, f->free((acltdtBuf)(uintptr_t)0xb000000100010000));
    FAILS(PARAM, f->free((acltdtBuf)1));
}
END_TEST

/* --- references --- */

/* Checklist 4. */
START_TEST(references_share_data_only)
{
    acltdtBuf buf, copy;

    f = &families[_i];
    buf = alloc_buffer(5000);
    strcpy((char *)data_of(buf), "one");
    OK(f->set_length(buf, 4));
    mark_user(buf, 1);
    copy = copy_of(buf);
    ck_assert_ptr_ne(buf, copy);
    ck_assert_ptr_eq(data_of(copy), data_of(buf));
    ck_assert_uint_eq(room_of(copy), 5000);
    ck_assert_uint_eq(length_of(copy), 4);
    ck_assert_uint_eq(user_mark(copy), 1);
    ck_assert_uint_eq(count_of(copy), 1);
    OK(f->set_length(copy, 5000));
    mark_user(copy, 2);
    ck_assert_uint_eq(length_of(buf), 4);
    ck_assert_uint_eq(user_mark(buf), 1);
    OK(f->set_length(buf, 7));
    ck_assert_uint_eq(length_of(copy), 5000);
    FAILS(PARAM, f->set_length(copy, 5001));
    strcpy((char *)data_of(copy), "two");
    ck_assert_str_eq((char *)data_of(buf), "two");
    OK(f->free(buf));
    OK(f->free(copy));
    expect_refused(copy, "freed");
}
END_TEST

/* Checklist 5: `order` tells which goes first. */
static void free_in_order(size_t size, const int *order)
{
    acltdtBuf buf[3], fresh[200];
    unsigned char *data;

    buf[0] = alloc_buffer(size);
    data = data_of(buf[0]);
    buf[1] = copy_of(buf[0]);
    buf[2] = copy_of(buf[1]);
    memset(data, 0x77, size);
    for (int i = 0; i < 3; i++) {
        /* The data stays allocated until the last reference is freed. */
        for (int j = 0; j < 200; j++) {
            fresh[j] = alloc_buffer(size);
            ck_assert_ptr_ne(data_of(fresh[j]), data);
        }
        for (int j = 0; j < 200; j++)
            OK(f->free(fresh[j]));
        ck_assert_ptr_eq(data_of(buf[order[i]]), data);
        ck_assert_uint_eq(data[size - 1], 0x77);
        OK(f->free(buf[order[i]]));
        expect_refused(buf[order[i]], "freed");
    }
}

START_TEST(references_are_freed_in_any_order)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    f = &families[_i];
    for (int i = 0; i < 6; i++) {
        free_in_order(64, orders[i]);
        free_in_order(9000, orders[i]);
    }
}
END_TEST

/* The last of many references gives the data back; there is an end to them, which is an error. */
START_TEST(many_references)
{
    enum { MOST = 70000 };
    acltdtBuf *copies = calloc(MOST, sizeof(*copies)), one;
    uint32_t n = 0;
    aclError error = 0;

    ck_assert_ptr_nonnull(copies);
    f = &families[_i];
    one = alloc_buffer(MIB);
    while (n < MOST && (error = f->copy(one, &copies[n])) == 0)
        n++;
    ck_assert_uint_ge(n, 1000);
    ck_assert(error == ACL_ERROR_RT_RESOURCE_ALLOC_FAIL || n == MOST);
    OK(f->free(copies[0]));
    OK(f->copy(one, &copies[0]));
    OK(f->free(one));
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(room_of(copies[i]), MIB);
        OK(f->free(copies[i]));
    }
    free(copies);
    await_memory_below(MIB);
}
END_TEST

/* --- chains --- */

/* Checklist 6. */
START_TEST(chain_of_128)
{
    acltdtBuf head, member, extra, more;

    f = &families[_i];
    head = make_chain(128, 300);
    ck_assert_uint_eq(count_of(head), 128);
    extra = alloc_buffer(300);
    FAILS(ACL_ERROR_RT_OVER_LIMIT, f->append(head, extra));
    more = make_chain(2, 10);
    FAILS(ACL_ERROR_RT_OVER_LIMIT, f->append(more, head));
    ck_assert_uint_eq(count_of(head), 128);
    ck_assert_uint_eq(count_of(more), 2);
    ck_assert_uint_eq(count_of(extra), 1);
    member = get_member(head, 127);
    FAILS(PARAM, f->free(member));
    FAILS(PARAM, f->free(get_member(head, 1)));
    ck_assert_uint_eq(count_of(head), 128);
    OK(f->free(extra));
    OK(f->free(more));
    OK(f->free(head));
    expect_refused(head, "freed");
    expect_refused(member, "buffer");
}
END_TEST

START_TEST(members_are_used_by_their_handles)
{
    acltdtBuf head, one, two, out;
    const acltdtBuf before = &out;
    uint32_t n = 4711;

    f = &families[_i];
    head = alloc_buffer(10);
    one = alloc_buffer(2000);
    two = alloc_buffer(3 * MIB);
    mark_user(one, 1);
    OK(f->set_length(two, 2));
    OK(f->append(head, one));
    OK(f->append(head, two));
    ck_assert_uint_eq(count_of(head), 3);
    ck_assert_ptr_eq(get_member(head, 0), head);
    ck_assert_ptr_eq(get_member(head, 1), one);
    ck_assert_ptr_eq(get_member(head, 2), two);
    ck_assert_uint_eq(user_mark(one), 1);
    ck_assert_uint_eq(length_of(two), 2);
    ck_assert_uint_eq(room_of(one), 2000);
    mark_user(two, 5);
    OK(f->set_length(one, 2000));
    memset(data_of(two), 3, 3 * MIB);

    out = before;
    FAILS(PARAM, f->at(head, 128, &out));
    FAILS(PARAM, f->at(head, UINT32_MAX, &out));
    FAILS(INTERNAL, f->at(head, 3, &out));
    FAILS(INTERNAL, f->at(head, 127, &out));
    FAILS_SAYING(PARAM, "member", f->at(one, 0, &out));
    FAILS_SAYING(PARAM, "member", f->num(one, &n));
    FAILS_SAYING(PARAM, "member", f->free(two));
    ck_assert_ptr_eq(out, before);
    ck_assert_uint_eq(n, 4711);
    OK(f->free(head));
    expect_refused(one, "buffer");
    expect_refused(two, "buffer");
}
END_TEST

START_TEST(appending_refused)
{
    acltdtBuf a, b, c;

    f = &families[_i];
    a = alloc_buffer(10);
    b = alloc_buffer(10);
    c = alloc_buffer(10);
    FAILS(INTERNAL, f->append(a, a));
    OK(f->append(a, b));
    FAILS(INTERNAL, f->append(a, a));
    FAILS_SAYING(PARAM, "member", f->append(b, c)); /* not the head */
    FAILS_SAYING(PARAM, "member", f->append(c, b)); /* in a chain already */
    FAILS_SAYING(PARAM, "member", f->append(a, b));
    FAILS_SAYING(PARAM, "member", f->append(b, a));
    ck_assert_uint_eq(count_of(a), 2);
    ck_assert_uint_eq(count_of(c), 1);
    OK(f->free(c));
    OK(f->free(a));
}
END_TEST

START_TEST(chains_are_joined_in_order)
{
    acltdtBuf a, b, handles[128];

    f = &families[_i];
    a = make_chain(60, 100);
    b = make_chain(68, 700);
    for (uint32_t i = 0; i < 128; i++) {
        handles[i] = i < 60 ? get_member(a, i) : get_member(b, i - 60);
        mark_user(handles[i], i);
    }
    OK(f->append(a, b));
    ck_assert_uint_eq(count_of(a), 128);
    for (uint32_t i = 0; i < 128; i++) {
        ck_assert_ptr_eq(get_member(a, i), handles[i]);
        ck_assert_uint_eq(user_mark(handles[i]), i);
        ck_assert_uint_eq(room_of(handles[i]), i < 60 ? 100 : 700);
    }
    FAILS(PARAM, f->free(b));
    OK(f->free(a));
    for (uint32_t i = 0; i < 128; i++)
        FAILS(PARAM, f->free(handles[i]));
}
END_TEST

/* Checklist 7, and the tail from a member on. */
START_TEST(copies_of_chains)
{
    acltdtBuf head, copy, tail, member;

    f = &families[_i];
    head = make_chain(100, 500);
    for (uint32_t i = 0; i < 100; i++) {
        member = get_member(head, i);
        memset(data_of(member), (int)i, 500);
        OK(f->set_length(member, i + 1));
        mark_user(member, i);
    }
    copy = copy_of(head);
    tail = copy_of(get_member(head, 90));
    ck_assert_uint_eq(count_of(copy), 100);
    ck_assert_uint_eq(count_of(tail), 10);
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_ptr_eq(data_of(get_member(copy, i)), data_of(get_member(head, i)));
        ck_assert_ptr_ne(get_member(copy, i), get_member(head, i));
    }
    OK(f->free(head));
    for (uint32_t i = 0; i < 100; i++) {
        acltdtBuf both[] = {get_member(copy, i), i < 90 ? NULL : get_member(tail, i - 90)};

        for (int j = 0; j < 2 && both[j]; j++) {
            ck_assert_uint_eq(user_mark(both[j]), i);
            ck_assert_uint_eq(length_of(both[j]), i + 1);
            ck_assert_uint_eq(*data_of(both[j]), i);
        }
    }
    OK(f->free(copy));
    ck_assert_uint_eq(data_of(get_member(tail, 9))[499], 99);
    /* A chain of references can grow, be joined, and be copied like any other. */
    OK(f->append(tail, make_chain(118, 64)));
    ck_assert_uint_eq(count_of(tail), 128);
    copy = copy_of(tail);
    ck_assert_uint_eq(count_of(copy), 128);
    OK(f->free(tail));
    OK(f->free(copy));
}
END_TEST

/* A copy that fails in the middle leaves nothing behind, and the chain as it was. */
START_TEST(copy_that_fails_is_undone)
{
    enum { MOST = 70000 };
    acltdtBuf *copies = calloc(MOST, sizeof(*copies)), head, last, out = copies;
    uint32_t n = 0;

    ck_assert_ptr_nonnull(copies);
    f = &families[_i];
    head = make_chain(3, 100);
    last = alloc_buffer(2 * MIB);
    OK(f->append(head, last));
    while (n < MOST && f->copy(last, &copies[n]) == 0) /* all references of its segment */
        n++;
    ck_assert_uint_lt(n, MOST);
    for (int i = 0; i < 10000; i++)
        FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, f->copy(head, &out));
    ck_assert_ptr_eq(out, copies);
    ck_assert_uint_eq(count_of(head), 4);
    OK(f->free(copies[--n]));
    OK(f->copy(head, &out));
    ck_assert_uint_eq(count_of(out), 4);
    OK(f->free(out));
    OK(f->free(head));
    while (n > 0)
        OK(f->free(copies[--n]));
    free(copies);
}
END_TEST

/* --- sizes and numbers --- */

static void first_and_last(size_t size)
{
    acltdtBuf buf[3];

    for (int i = 0; i < 3; i++) {
        unsigned char *data;

        buf[i] = alloc_buffer(size);
        data = data_of(buf[i]);
        ck_assert_uint_eq(room_of(buf[i]), size);
        ck_assert_uint_eq((uintptr_t)data % (size >= MIB ? 4096 : 64), 0);
        data[0] = (unsigned char)(10 + i);
        data[size - 1] = (unsigned char)(20 + i);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(data_of(buf[i])[size - 1], 20 + i);
        ck_assert(size == 1 || data_of(buf[i])[0] == 10 + i);
        OK(f->free(buf[i]));
    }
}

START_TEST(all_sizes)
{
    for (size_t power = 1; power <= 64 * MIB; power *= 2)
        for (size_t step = 0; step < 8; step++) {
            size_t size = power + power * step / 8;

            if (size > 1)
                first_and_last(size - 1);
            first_and_last(size);
            first_and_last(size + 1);
        }
}
END_TEST

START_TEST(largest_buffer)
{
    acltdtBuf buf, copy;
    unsigned char *data;

    buf = alloc_buffer(4 * GIB);
    ck_assert_uint_eq(room_of(buf), 4 * GIB);
    data = data_of(buf);
    data[0] = 1;
    data[4 * GIB - 1] = 2;
    OK(f->set_length(buf, 4 * GIB));
    copy = copy_of(buf);
    OK(f->free(buf));
    ck_assert_uint_eq(length_of(copy), 4 * GIB);
    ck_assert_uint_eq(data_of(copy)[4 * GIB - 1], 2);
    OK(f->free(copy));
    await_memory_below(MIB);
}
END_TEST

START_TEST(hundred_thousand)
{
    enum { MANY = 100000 };
    acltdtBuf *buf = calloc(MANY, sizeof(*buf));

    ck_assert_ptr_nonnull(buf);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY; i++) {
            buf[i] = alloc_buffer(64);
            *(size_t *)data_of(buf[i]) = i;
            mark_user(buf[i], ~i);
        }
        for (size_t i = 0; i < MANY; i++) {
            ck_assert_uint_eq(*(size_t *)data_of(buf[i]), i);
            ck_assert_uint_eq(user_mark(buf[i]), ~i);
            OK(f->free(buf[i]));
        }
    }
    free(buf);
    await_memory_below(KEPT);
}
END_TEST

/* --- memory --- */

START_TEST(memory_is_given_back)
{
    static const size_t sizes[] = {64, 1000, 5000, 60000, 100000, MIB, 5 * MIB};
    enum { SIZES = 7, EACH = 40 };
    acltdtBuf buf[SIZES][EACH], one;

    for (int i = 0; i < SIZES; i++)
        for (int j = 0; j < EACH; j++) {
            buf[i][j] = alloc_buffer(sizes[i]);
            memset(data_of(buf[i][j]), 1, sizes[i]);
        }
    ck_assert_uint_gt(pool_memory(), EACH * 6 * MIB);
    one = copy_of(buf[6][7]);
    for (int i = 0; i < SIZES; i++)
        for (int j = 0; j < EACH; j++)
            OK(f->free(buf[i][j]));
    await_memory_below(7 * MIB + KEPT); /* with the one that a reference needs */
    ck_assert_uint_eq(data_of(one)[5 * MIB - 1], 1);
    OK(f->free(one));
    await_memory_below(KEPT);
    for (int i = 0; i < SIZES; i++)
        OK(f->free(alloc_buffer(sizes[i])));
}
END_TEST

/* Each is a segment of its own, and npud needs to be told of few of them. */
START_TEST(thousands_of_segments_are_freed_at_once)
{
    enum { MANY = 3000, MOST = 60 };
    acltdtBuf *buf = calloc(MANY, sizeof(*buf));
    uint64_t before;

    ck_assert_ptr_nonnull(buf);
    if (need_fds(__func__, 2 * MANY + 1000)) {
        for (int i = 0; i < MANY; i++)
            buf[i] = alloc_buffer(3 * MIB);
        before = requests_sent();
        for (int i = 0; i < MANY; i++)
            OK(f->free(buf[i]));
        /* Where this takes seconds npud looks more than once, and is told again each time. */
        ck_assert_uint_le(requests_sent(), before + MOST);
        await_memory_below(KEPT);
    }
    free(buf);
}
END_TEST

/* Few buffers after many come from the small segments, and the large ones go. */
START_TEST(few_after_many)
{
    enum { MANY = 50000, FEW = 200, FIRST = 100 };
    acltdtBuf *buf = calloc(MANY, sizeof(*buf)), few[FEW];

    ck_assert_ptr_nonnull(buf);
    for (int i = 0; i < MANY; i++)
        buf[i] = alloc_buffer(64);
    for (int i = 0; i < MANY - 1; i++)
        OK(f->free(buf[i]));
    for (int i = 0; i < FEW; i++)
        few[i] = alloc_buffer(64);
    /* The first of them may be where the last one of the many was. */
    OK(f->free(buf[MANY - 1]));
    for (int i = 0; i < FIRST; i++)
        OK(f->free(few[i]));
    await_memory_below(KEPT);
    for (int i = FIRST; i < FEW; i++)
        OK(f->free(few[i]));
    free(buf);
}
END_TEST

/* Free slots far apart in many segments are found, though no allocation looks at all of these. */
START_TEST(free_slots_of_many_segments)
{
    enum { SEGMENTS = 100, EACH = 4, MANY = SEGMENTS * EACH };
    acltdtBuf buf[MANY];
    uint64_t before;

    for (int i = 0; i < MANY; i++)
        buf[i] = alloc_buffer(MIB);
    before = pool_memory();
    for (int i = EACH / 2; i < MANY; i += EACH)
        OK(f->free(buf[i]));
    for (int i = EACH / 2; i < MANY; i += EACH)
        buf[i] = alloc_buffer(MIB);
    ck_assert_uint_lt(pool_memory(), before + before / 8);
    for (int i = 0; i < MANY; i++)
        OK(f->free(buf[i]));
    await_memory_below(KEPT);
}
END_TEST

/*
 * The file is no memory any more, nor is the mapping: what a program does again and again does not
 * add up.
 */
START_TEST(address_space_is_given_back)
{
    uint64_t used;
    acltdtBuf buf;

    for (int i = 0; i < 5; i++) {
        buf = alloc_buffer(2 * GIB);
        data_of(buf)[GIB] = 1;
        OK(f->free(buf));
        await_memory_below(MIB);
    }
    used = 0;
    for (int i = 0; i < 20; i++) {
        buf = alloc_buffer(GIB + i * GIB / 8);
        OK(f->free(buf));
        used = pool_memory();
    }
    ck_assert_uint_lt(used, 64 * GIB);
}
END_TEST

static void setup_limited(void)
{
    static const char *const args[] = {"--set=limits.mbuf_memory=16M", NULL};

    npud_start(args);
    OK(aclInit(NULL));
}

static void setup_limited_high(void)
{
    static const char *const args[] = {"--set=limits.mbuf_memory=512M", NULL};

    npud_start(args);
    OK(aclInit(NULL));
}

/*
 * Buffers can be had as long as the limit has room for a segment of one, and the one free slot is
 * found, whichever of many segments it is in.
 */
START_TEST(last_slot_at_a_limit)
{
    acltdtBuf buf[512] = {alloc_buffer(MIB)};
    uint64_t segment_of_one = pool_memory();
    int n = 1, error;

    ck_assert_uint_lt(segment_of_one, 2 * MIB);
    while (n < 512 && (error = f->alloc(&buf[n], MIB)) == 0)
        n++;
    ck_assert_int_eq(error, ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_int_gt(n, 400);
    ck_assert_uint_le(pool_memory(), 512 * MIB);
    ck_assert_uint_gt(pool_memory() + segment_of_one, 512 * MIB);
    for (int i = 0; i < n; i++) {
        int other = (int)((unsigned)i * 211 % (unsigned)n); /* far from the one before */

        OK(f->free(buf[other]));
        buf[other] = alloc_buffer(MIB);
    }
    /* A segment that was empty for a moment may have gone: another one may have a slot more. */
    while (n < 512 && (error = f->alloc(&buf[n], MIB)) == 0)
        n++;
    ck_assert_int_eq(error, ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_uint_le(pool_memory(), 512 * MIB);
    while (n > 0)
        OK(f->free(buf[--n]));
}
END_TEST

START_TEST(limit_of_memory)
{
    acltdtBuf buf[64], small[10], none = buf;
    int n = 0, error;

    for (int i = 0; i < 10; i++)
        small[i] = alloc_buffer(100);
    while ((error = f->alloc(&buf[n], MIB)) == 0)
        memset(data_of(buf[n]), n, MIB), n++;
    ck_assert_int_eq(error, ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_int_ge(n, 8);
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "user", f->alloc(&none, MIB));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, f->alloc(&none, 20 * MIB));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, f->alloc(&none, 4 * GIB));
    ck_assert_ptr_eq(none, buf);
    ck_assert_uint_le(pool_memory(), 16 * MIB);
    for (int i = 0; i < n; i++)
        ck_assert_uint_eq(data_of(buf[i])[MIB - 1], i);
    OK(f->free(buf[--n]));
    buf[n++] = alloc_buffer(MIB);
    /* What is free is there for other sizes at once. */
    while (n > 0)
        OK(f->free(buf[--n]));
    buf[0] = alloc_buffer(12 * MIB);
    OK(f->free(buf[0]));
    buf[0] = alloc_buffer(11 * MIB);
    OK(f->free(buf[0]));
    for (int i = 0; i < 10; i++)
        OK(f->free(small[i]));
    /* And so is what the thread has kept of small ones. */
    buf[0] = alloc_buffer(15 * MIB);
    OK(f->free(buf[0]));
}
END_TEST

/* --- copies by address --- */

static aclrtStream stream, other_stream;

static void setup_copies(void)
{
    npud_setup();
    streams_open(&stream, &other_stream);
}

START_TEST(copies_of_every_kind)
{
    acltdtBuf buf = alloc_buffer(1000), big = alloc_buffer(2 * MIB);
    unsigned char *data = data_of(buf), host[1000], *device;

    OK(aclrtMalloc((void **)&device, 2000, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int kind = ACL_MEMCPY_HOST_TO_HOST; kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE; kind++) {
        memset(host, kind + 1, sizeof(host));
        OK(aclrtMemcpy(data, 1000, host, 1000, kind));
        ck_assert_mem_eq(data, host, 1000);
        OK(aclrtMemcpy(data_of(big), 2 * MIB, data, 1000, kind));
        OK(aclrtMemcpy(device, 2000, data_of(big), 1000, kind));
        memset(data, 0, 1000);
        OK(aclrtMemcpy(data + 10, 990, device + 10, 990, kind));
        ck_assert_mem_eq(data + 10, host, 990);
        memset(host, 0, sizeof(host));
        OK(aclrtMemcpy(host, 1000, data, 1000, kind));
        ck_assert_uint_eq(host[999], kind + 1);

        memset(host, kind + 101, sizeof(host));
        OK(aclrtMemcpyAsync(data, 1000, host, 1000, kind, stream));
        OK(aclrtMemcpyAsync(device, 2000, data, 1000, kind, stream));
        memset(data, 0, 1000); /* has been read: by the call, or before it returned */
        OK(aclrtMemcpyAsync(data_of(big), 2 * MIB, device, 1000, kind, stream));
        OK(aclrtMemcpyAsync(data, 1000, data_of(big), 1000, kind, stream));
        ck_assert_mem_eq(data, host, 1000);
    }
    OK(aclrtMemset(data, 1000, 0x5a, 1000));
    ck_assert_uint_eq(data[999], 0x5a);
    OK(aclrtMemsetAsync(data, 1000, 0x5b, 500, stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(data[499], 0x5b);
    ck_assert_uint_eq(data[500], 0x5a);
    OK(aclrtFree(device));
    OK(f->free(buf));
    OK(f->free(big));
}
END_TEST

START_TEST(copies_stay_within_the_buffer)
{
    acltdtBuf buf = alloc_buffer(1000), copy, neighbour = alloc_buffer(1000);
    unsigned char *data = data_of(buf), host[2000] = {0};

    memset(data_of(neighbour), 1, 1000);
    FAILS_SAYING(PARAM, "1000", aclrtMemcpy(data, 2000, host, 1001, ACL_MEMCPY_HOST_TO_DEVICE));
    FAILS(PARAM, aclrtMemcpy(host, 2000, data, 1001, ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(PARAM, aclrtMemcpy(data + 1000, 2000, host, 1, ACL_MEMCPY_DEFAULT));
    FAILS(PARAM, aclrtMemcpy(data + 999, 2000, host, 2, ACL_MEMCPY_DEFAULT));
    FAILS(PARAM, aclrtMemcpyAsync(data, 2000, host, 1001, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    FAILS(PARAM, aclrtMemset(data, 2000, 0, 1001));
    FAILS(PARAM, aclrtMemsetAsync(data, 2000, 0, 1001, stream));
    OK(aclrtMemcpy(data + 999, 1, host, 1, ACL_MEMCPY_DEFAULT));
    ck_assert_uint_eq(data_of(neighbour)[0], 1);
    copy = copy_of(buf);
    OK(f->free(buf));
    OK(aclrtMemcpy(data, 1000, host, 1000, ACL_MEMCPY_DEFAULT));
    OK(f->free(copy));
    FAILS_SAYING(PARAM, "freed", aclrtMemcpy(data, 1000, host, 1, ACL_MEMCPY_DEFAULT));
    FAILS_SAYING(PARAM, "freed", aclrtMemcpy(host, 1000, data, 1, ACL_MEMCPY_DEFAULT));
    OK(f->free(neighbour));
}
END_TEST

/* What the stream has to do before is done, and the copy is over when the call returns. */
START_TEST(copies_in_their_turn)
{
    acltdtBuf buf = alloc_buffer(8);
    uint64_t *data = (uint64_t *)(void *)data_of(buf), *device;

    OK(aclrtMalloc((void **)&device, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    *data = 2;
    for (int i = 0; i < 20; i++) {
        OK(aclnpudLaunchDelay(1000, 0, stream));
        OK(aclrtMemsetAsync(device, 8, i, 8, stream));
        OK(aclrtMemcpyAsync(data, 8, device, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        ck_assert_uint_eq(*data, i * UINT64_C(0x0101010101010101));
        OK(f->free(buf));
        buf = alloc_buffer(8);
        data = (uint64_t *)(void *)data_of(buf);
    }
    OK(f->free(buf));
    OK(aclrtFree(device));
}
END_TEST

START_TEST(attributes_of_addresses)
{
    acltdtBuf buf = alloc_buffer(100000);
    aclrtPtrAttributes a;
    unsigned char *data = data_of(buf);
    int here;

    OK(aclrtPointerGetAttributes(data, &a));
    ck_assert_int_eq(a.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    ck_assert_uint_eq(a.location.id, 0);
    OK(aclrtPointerGetAttributes(data + 99999, &a));
    ck_assert_int_eq(a.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    OK(aclrtPointerGetAttributes(&here, &a));
    ck_assert_int_eq(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    OK(f->free(buf));
}
END_TEST

/* --- threads --- */

/* Places where threads leave buffers for each other, each with its own lock. */
#define PLACES 64
static struct place {
    pthread_mutex_t lock;
    acltdtBuf buf;
} places[PLACES];

static void *trade_buffers(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    for (int i = 0; i < 20000 / SLOW; i++) {
        struct place *p = &places[draw_below(&seed, PLACES)];
        uint64_t size = 8 + draw_below(&seed, draw_below(&seed, 10) == 0 ? 300000 : 2000);
        acltdtBuf mine = alloc_buffer(size), theirs;

        *(acltdtBuf *)(void *)data_of(mine) = mine;
        mark_user(mine, (uintptr_t)mine);
        if (draw_below(&seed, 4) == 0)
            OK(f->append(mine, alloc_buffer(8)));
        if (draw_below(&seed, 4) == 0) {
            acltdtBuf copy = copy_of(mine);

            OK(f->free(copy));
        }
        pthread_mutex_lock(&p->lock);
        theirs = p->buf;
        p->buf = mine;
        pthread_mutex_unlock(&p->lock);
        if (theirs) {
            ck_assert_ptr_eq(*(acltdtBuf *)(void *)data_of(theirs), theirs);
            ck_assert_uint_eq(user_mark(theirs), (uintptr_t)theirs);
            OK(f->free(theirs));
        }
    }
    return NULL;
}

START_TEST(threads_free_what_others_allocated)
{
    enum { THREADS = 6 };
    pthread_t thread[THREADS];

    for (int i = 0; i < PLACES; i++)
        pthread_mutex_init(&places[i].lock, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, trade_buffers, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < PLACES; i++)
        if (places[i].buf)
            OK(f->free(places[i].buf));
    /* One more, so that what this thread keeps is looked at: all threads have given back theirs. */
    OK(f->free(alloc_buffer(8 * MIB)));
    await_memory_below(KEPT);
}
END_TEST

static void *reference_and_free(void *arg)
{
    for (int i = 0; i < 5000 / SLOW; i++) {
        acltdtBuf copy = copy_of(arg);

        ck_assert_uint_eq(count_of(copy), 3);
        ck_assert_uint_eq(*data_of(get_member(copy, 2)), 42);
        OK(f->free(copy));
    }
    return NULL;
}

/*
 * No thread owns a reference count: each thread copies its own reference of the same data, without
 * a lock.
 */
START_TEST(threads_count_references_of_the_same_data)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    acltdtBuf head = make_chain(3, 64), own[THREADS];

    *data_of(get_member(head, 2)) = 42;
    for (int i = 0; i < THREADS; i++)
        own[i] = copy_of(head);
    OK(f->free(head));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, reference_and_free, own[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        OK(f->free(own[i]));
    OK(f->free(alloc_buffer(8 * MIB)));
    await_memory_below(KEPT);
}
END_TEST

#define SOME 40

/* arg: SOME handles, or NULL. */
static void *keep_some(void *arg)
{
    acltdtBuf here[SOME], *buf = arg ? arg : here;

    for (int i = 0; i < SOME; i++)
        buf[i] = alloc_buffer(64);
    for (int i = 0; i < SOME; i++)
        OK(f->free(buf[i]));
    return NULL;
}

START_TEST(threads_that_end_give_back)
{
    uint64_t after_one;

    thread_call(keep_some, NULL);
    after_one = pool_memory();
    for (int i = 0; i < 200; i++)
        thread_call(keep_some, NULL);
    ck_assert_uint_eq(pool_memory(), after_one);
}
END_TEST

/* Each thread finds the slots that the one before has given back. */
START_TEST(handles_do_not_come_again)
{
    acltdtBuf buf[4 * SOME];

    for (int i = 0; i < 4; i++)
        thread_call(keep_some, buf + i * SOME);
    for (int i = 0; i < 4 * SOME; i++)
        for (int k = 0; k < i; k++)
            ck_assert_ptr_ne(buf[i], buf[k]);
}
END_TEST

/* --- life --- */

START_TEST(session_ends_with_buffers)
{
    acltdtBuf buf = NULL, old;

    for (int round = 0; round < 3; round++) {
        old = buf;
        buf = make_chain(10, 1000);
        ck_assert_ptr_nonnull(copy_of(buf));
        if (old)
            ck_assert_ptr_ne(old, buf);
        ck_assert_uint_gt(pool_memory(), 0);
        OK(aclFinalize());
        npud_expect_empty();
        await_memory_below(1);
        FAILS(PARAM, f->free(buf));
        OK(aclInit(NULL));
    }
}
END_TEST

/* What a thread kept of an earlier session is no part of the next, also when it ends after that. */
START_TEST(threads_outlive_sessions)
{
    acltdtBuf buf[8];

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 8; i++)
            buf[i] = alloc_buffer(64);
        for (int i = 0; i < 8; i++)
            OK(f->free(buf[i]));
        OK(aclFinalize());
        OK(aclInit(NULL));
    }
}
END_TEST

START_TEST(npud_is_lost)
{
    acltdtBuf buf = alloc_buffer(1000), copy = copy_of(buf), out = buf;
    unsigned char *data = data_of(buf);
    uint32_t n;
    size_t size;
    void *where;

    memset(data, 7, 1000);
    npud_kill();
    while (f->get_length(buf, &size) == 0)
        ; /* the library learns it in its own time */
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, f->alloc(&out, 1000));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, f->free(buf));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, f->data(buf, &where, &size));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, f->copy(buf, &out));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, f->append(buf, copy));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, f->num(buf, &n));
    ck_assert_ptr_eq(out, buf);
    ck_assert_uint_eq(data[999], 7); /* nothing is torn away */

    npud_start(NULL);
    OK(aclFinalize());
    OK(aclInit(NULL));
    FAILS(PARAM, f->free(buf));
    out = alloc_buffer(1000);
    ck_assert_ptr_ne(data_of(out), data);
    memset(data_of(out), 8, 1000);
    ck_assert_uint_eq(data[999], 7);
    OK(f->free(out));
}
END_TEST

static int check_inherited(acltdtBuf buf, unsigned char *data)
{
    acltdtBuf own;
    unsigned char present;

    FAILS(ACL_ERROR_UNINITIALIZE, f->free(buf));
    FAILS(ACL_ERROR_UNINITIALIZE, f->alloc(&own, 10));
    ck_assert_int_eq(mincore((void *)((uintptr_t)data & ~(uintptr_t)4095), 1, &present), -1);
    OK(aclInit(NULL));
    FAILS(PARAM, f->free(buf));
    own = alloc_buffer(1000);
    memset(data_of(own), 0xee, 1000);
    FAILS(PARAM, f->free(buf));
    OK(f->free(own));
    OK(aclFinalize());
    return 0;
}

START_TEST(forked_children)
{
    acltdtBuf buf = alloc_buffer(1000), kept = alloc_buffer(1000);
    unsigned char *data = data_of(buf);
    int status;
    pid_t pid;

    if (!FORK)
        return;
    memset(data, 7, 1000);
    OK(f->free(kept)); /* stays with this thread, of which the child has a copy */
    for (int i = 0; i < 3; i++) {
        pid = fork_when_quiet();
        if (pid == 0)
            _exit(check_inherited(buf, data));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(data[999], 7);
    ck_assert_uint_eq(room_of(buf), 1000);
    kept = alloc_buffer(1000);
    ck_assert_ptr_ne(data_of(kept), data);
    OK(f->free(kept));
    OK(f->free(buf));
}
END_TEST

START_TEST(without_npud)
{
    acltdtBuf buf = &buf;

    setenv("NPUD_SOCKET", "/nonexistent/npud.sock", 1);
    OK(aclInit(NULL));
    FAILS_SAYING(ACL_ERROR_RT_NO_DEVICE, "/nonexistent", f->alloc(&buf, 10));
    FAILS(PARAM, f->free((acltdtBuf)1));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtAllocBuf(10, 2, &buf));
}
END_TEST

static void tear_down_test(void)
{
    aclFinalize();
    npud_expect_empty();
    await_memory_below(1);
    npud_teardown();
}

static void teardown_copies(void)
{
    OK(aclrtResetDeviceForce(0));
    tear_down_test();
}

static void teardown_lost(void)
{
    aclFinalize();
    npud_teardown();
}

/* --- what a peer may write --- */

/* Change each word of this value in the memory that is shared with npud. Returns how many. */
static unsigned overwrite_words(uint64_t value, uint64_t with)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long from, to;
    unsigned n = 0;
    char line[512];

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "npud-buffers") || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        for (uint64_t *word = (uint64_t *)from; word < (uint64_t *)to; word++)
            if (*word == value) {
                *word = with;
                n++;
            }
    }
    fclose(maps);
    return n;
}

START_TEST(length_stays_within_the_room)
{
    const size_t length = 0x1234567;
    size_t got, room;
    acltdtBuf buf;
    void *data;

    OK(acltdtAllocBuf(24 * MIB, 0, &buf));
    OK(acltdtGetBufData(buf, &data, &room));
    OK(acltdtSetBufDataLen(buf, length));
    ck_assert_uint_eq(overwrite_words(length, UINT64_MAX / 2), 1);
    OK(acltdtGetBufDataLen(buf, &got));
    ck_assert_uint_le(got, room);
    OK(acltdtSetBufDataLen(buf, length));
    OK(acltdtGetBufDataLen(buf, &got));
    ck_assert_uint_eq(got, length);
    /* The room itself. */
    ck_assert_uint_eq(overwrite_words(room, UINT64_MAX / 2), 1);
    FAILS(INTERNAL, acltdtGetBufData(buf, &data, &room));
    FAILS(INTERNAL, acltdtGetBufDataLen(buf, &got));
    FAILS(INTERNAL, acltdtSetBufDataLen(buf, length));
    OK(acltdtFreeBuf(buf));
}
END_TEST

static void add_for_families(TCase *t, const TTest *test)
{
    tcase_add_loop_test(t, test, 0, FAMILIES);
}

int main(void)
{
    Suite *s = suite_create("mbuf");
    TCase *t = suite_case(s, "calls", 60, set_up_test, tear_down_test);

    add_for_families(t, fresh_buffer);
    tcase_add_test(t, alloc_errors);
    add_for_families(t, null_arguments);
    add_for_families(t, data_length);
    tcase_add_test(t, length_stays_within_the_room);
    add_for_families(t, user_data);
    add_for_families(t, freed_buffers_are_refused);
    add_for_families(t, freed_big_buffers_are_refused);
    add_for_families(t, what_is_no_handle_is_refused);
    add_for_families(t, before_the_first_buffer);
    add_for_families(t, references_share_data_only);
    add_for_families(t, references_are_freed_in_any_order);
    add_for_families(t, many_references);
    add_for_families(t, chain_of_128);
    add_for_families(t, members_are_used_by_their_handles);
    add_for_families(t, appending_refused);
    add_for_families(t, chains_are_joined_in_order);
    add_for_families(t, copies_of_chains);
    add_for_families(t, copy_that_fails_is_undone);

    t = suite_case(s, "memory", 120, set_up_test, tear_down_test);
    tcase_add_test(t, all_sizes);
    tcase_add_test(t, largest_buffer);
    tcase_add_test(t, hundred_thousand);
    tcase_add_test(t, memory_is_given_back);
    tcase_add_test(t, thousands_of_segments_are_freed_at_once);
    tcase_add_test(t, few_after_many);
    tcase_add_test(t, free_slots_of_many_segments);
    tcase_add_test(t, address_space_is_given_back);
    t = suite_case(s, "limit", 60, setup_limited, tear_down_test);
    tcase_add_test(t, limit_of_memory);
    t = suite_case(s, "high limit", 60, setup_limited_high, tear_down_test);
    tcase_add_test(t, last_slot_at_a_limit);

    t = suite_case(s, "copies", 60, setup_copies, teardown_copies);
    tcase_add_test(t, copies_of_every_kind);
    tcase_add_test(t, copies_stay_within_the_buffer);
    tcase_add_test(t, copies_in_their_turn);
    tcase_add_test(t, attributes_of_addresses);

    t = suite_case(s, "threads", 120, set_up_test, tear_down_test);
    tcase_add_test(t, threads_free_what_others_allocated);
    tcase_add_test(t, threads_count_references_of_the_same_data);
    tcase_add_test(t, threads_that_end_give_back);
    tcase_add_test(t, handles_do_not_come_again);

    t = suite_case(s, "life", 60, set_up_test, tear_down_test);
    tcase_add_test(t, session_ends_with_buffers);
    tcase_add_test(t, threads_outlive_sessions);
    tcase_add_test(t, forked_children);
    t = suite_case(s, "lost", 60, set_up_test, teardown_lost);
    tcase_add_test(t, npud_is_lost);
    t = suite_case(s, "alone", 60, NULL, NULL);
    tcase_add_test(t, without_npud);
    return run_suite(s);
}
