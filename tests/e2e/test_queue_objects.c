/*
 * Attributes of queues, and descriptions of routes: objects of the process alone. No npud runs
 * here; what becomes of these objects in queues and bound routes is tested with those.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
/* States, and what has been set: only bound routes and queries show them. */
#include "client/buffers/queue_object.h"
#include "tests/common/harness.h"

#define INVALID ACL_ERROR_INVALID_PARAM

/* The sanitizers reserve address space without end, and end the program when they get none. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_LIMIT_MEMORY false
#else
#define CAN_LIMIT_MEMORY true
#endif

/* --- helpers --- */

/*
 * A string of n times the letter, in memory of that very size: reading on is an error that ASan
 * sees.
 */
static char *make_letters(char letter, size_t n)
{
    char *s = malloc(n + 1);

    ck_assert_ptr_nonnull(s);
    memset(s, letter, n);
    s[n] = '\0';
    return s;
}

static aclError set_name(acltdtQueueAttr *attr, const char *name)
{
    return acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), &name);
}

static aclError set_depth(acltdtQueueAttr *attr, uint32_t depth)
{
    return acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth);
}

static const char *name_of(const acltdtQueueAttr *attr)
{
    const char *name = NULL;
    size_t size = 77;

    OK(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), &size, &name));
    ck_assert_uint_eq(size, sizeof(name));
    ck_assert_ptr_nonnull(name);
    return name;
}

static uint32_t depth_of(const acltdtQueueAttr *attr)
{
    uint32_t depth = 77;
    size_t size = 77;

    OK(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &size, &depth));
    ck_assert_uint_eq(size, sizeof(depth));
    return depth;
}

static uint32_t id_of(const acltdtQueueRoute *route, acltdtQueueRouteParamType type)
{
    uint32_t id = 77;
    size_t size = 77;

    OK(acltdtGetQueueRouteParam(route, type, sizeof(id), &size, &id));
    ck_assert_uint_eq(size, sizeof(id));
    return id;
}

static void expect_route(const acltdtQueueRoute *route, uint32_t src, uint32_t dst)
{
    int32_t status = 77;
    size_t size = 77;

    ck_assert_uint_eq(id_of(route, ACL_TDT_QUEUE_ROUTE_SRC_UINT32), src);
    ck_assert_uint_eq(id_of(route, ACL_TDT_QUEUE_ROUTE_DST_UINT32), dst);
    OK(acltdtGetQueueRouteParam(route, ACL_TDT_QUEUE_ROUTE_STATUS_INT32, sizeof(status), &size,
                                &status));
    ck_assert_uint_eq(size, sizeof(status));
    ck_assert_int_eq(status, ACL_TDT_QUEUE_ROUTE_UNBIND);
}

static acltdtQueueRoute *make_route(uint32_t src, uint32_t dst)
{
    acltdtQueueRoute *route = acltdtCreateQueueRoute(src, dst);

    ck_assert_ptr_nonnull(route);
    return route;
}

static void add_route(acltdtQueueRouteList *list, uint32_t src, uint32_t dst)
{
    acltdtQueueRoute *route = make_route(src, dst);

    OK(acltdtAddQueueRoute(list, route));
    OK(acltdtDestroyQueueRoute(route));
}

static void expect_in_list(const acltdtQueueRouteList *list, size_t index, uint32_t src,
                           uint32_t dst)
{
    acltdtQueueRoute *route = make_route(77, 77);

    OK(acltdtGetQueueRoute(list, index, route));
    expect_route(route, src, dst);
    OK(acltdtDestroyQueueRoute(route));
}

/* --- attributes --- */

static acltdtQueueAttr *attr;

static void make_attr(void)
{
    attr = acltdtCreateQueueAttr();
    ck_assert_ptr_nonnull(attr);
}

static void destroy_attr(void)
{
    OK(acltdtDestroyQueueAttr(attr));
}

START_TEST(new_attributes)
{
    ck_assert_str_eq(name_of(attr), "");
    ck_assert_uint_eq(depth_of(attr), 8);
}
END_TEST

START_TEST(null_attributes)
{
    FAILS(INVALID, acltdtDestroyQueueAttr(NULL));
}
END_TEST

START_TEST(names_of_every_length)
{
    for (size_t n = 0; n <= 127; n++) {
        char *name = make_letters('n', n);

        OK(set_name(attr, name));
        ck_assert_ptr_ne(name_of(attr), name);
        ck_assert_str_eq(name_of(attr), name);
        free(name);
        ck_assert_uint_eq(strlen(name_of(attr)), n);
    }
}
END_TEST

static const size_t too_long[] = {128, 129, 255, 256, 65536};

START_TEST(a_name_too_long_is_not_set)
{
    char *name = make_letters('n', too_long[_i]), *old = make_letters('o', 127);

    OK(set_name(attr, old));
    FAILS_SAYING(INVALID, "127", set_name(attr, name));
    ck_assert_str_eq(name_of(attr), old);
    free(name);
    free(old);
}
END_TEST

/* The interface tells where the name is, not the name. */
START_TEST(a_name_that_is_not_there)
{
    OK(set_name(attr, "old"));
    FAILS(INVALID, set_name(attr, NULL));
    FAILS(INVALID, acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(char *), NULL));
    FAILS(INVALID, acltdtSetQueueAttr(NULL, ACL_TDT_QUEUE_NAME_PTR, sizeof(char *), &attr));
    ck_assert_str_eq(name_of(attr), "old");
}
END_TEST

START_TEST(a_name_is_copied)
{
    char mine[] = "mine";

    OK(set_name(attr, mine));
    memcpy(mine, "your", 4);
    ck_assert_str_eq(name_of(attr), "mine");
}
END_TEST

START_TEST(a_name_is_lent_until_it_is_changed)
{
    const char *name;
    char *long_one = make_letters('l', 128);

    OK(set_name(attr, "first"));
    name = name_of(attr);
    OK(set_depth(attr, 16));
    FAILS(INVALID, set_name(attr, NULL));
    FAILS(INVALID, set_name(attr, long_one));
    ck_assert_str_eq(name, "first");
    ck_assert_ptr_eq(name_of(attr), name);
    OK(set_name(attr, "second"));
    ck_assert_str_eq(name_of(attr), "second");
    free(long_one);
}
END_TEST

START_TEST(a_lent_name_may_be_set)
{
    OK(set_name(attr, "prefix of a name"));
    OK(set_name(attr, name_of(attr)));
    ck_assert_str_eq(name_of(attr), "prefix of a name");
    OK(set_name(attr, name_of(attr) + strlen("prefix ")));
    ck_assert_str_eq(name_of(attr), "of a name");
}
END_TEST

START_TEST(attributes_have_their_own_names)
{
    acltdtQueueAttr *other = acltdtCreateQueueAttr();

    OK(set_name(attr, "one"));
    OK(set_name(other, name_of(attr)));
    OK(set_name(attr, "changed"));
    ck_assert_str_eq(name_of(other), "one");
    OK(acltdtDestroyQueueAttr(other));
    ck_assert_str_eq(name_of(attr), "changed");
}
END_TEST

/* A bad depth is refused when a queue is created with it, not when it is set. */
START_TEST(any_depth_is_kept)
{
    static const uint32_t depths[] = {0, 1, 2, 7, 8, 8192, 8193, INT32_MAX, UINT32_MAX};

    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        OK(set_depth(attr, depths[i]));
        ck_assert_uint_eq(depth_of(attr), depths[i]);
    }
    ck_assert_str_eq(name_of(attr), "");
    FAILS(INVALID, acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, 4, NULL));
    FAILS(INVALID, acltdtSetQueueAttr(NULL, ACL_TDT_QUEUE_DEPTH_UINT32, 4, &depths[0]));
    ck_assert_uint_eq(depth_of(attr), UINT32_MAX);
}
END_TEST

/* Not where numbers and pointers usually are. */
START_TEST(attributes_at_odd_addresses)
{
    char set[1 + sizeof(char *)], got[1 + sizeof(char *)];
    const char *name = "odd";
    uint32_t depth = 31;
    size_t size;

    memcpy(set + 1, &name, sizeof(name));
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), set + 1));
    OK(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), &size, got + 1));
    memcpy(&name, got + 1, sizeof(name));
    ck_assert_str_eq(name, "odd");
    memcpy(set + 1, &depth, sizeof(depth));
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), set + 1));
    OK(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &size, got + 1));
    depth = 0;
    memcpy(&depth, got + 1, sizeof(depth));
    ck_assert_uint_eq(depth, 31);
}
END_TEST

static const int bad_types[] = {-1, 2, 3, 100, INT32_MAX, INT32_MIN};
#define N_BAD_TYPES ((int)(sizeof(bad_types) / sizeof(bad_types[0])))

/* Neither is set by a bad call. */
static void expect_old_attributes(void)
{
    ck_assert_str_eq(name_of(attr), "old");
    ck_assert_uint_eq(depth_of(attr), 5);
}

START_TEST(attributes_of_no_type)
{
    acltdtQueueAttrType type = (acltdtQueueAttrType)bad_types[_i];
    const char *name = "new", *lent = name;
    size_t size = 77;

    OK(set_name(attr, "old"));
    OK(set_depth(attr, 5));
    FAILS(INVALID, acltdtSetQueueAttr(attr, type, sizeof(name), &name));
    FAILS(INVALID, acltdtSetQueueAttr(attr, type, sizeof(uint32_t), &name));
    expect_old_attributes();
    FAILS(INVALID, acltdtGetQueueAttr(attr, type, sizeof(lent), &size, &lent));
    ck_assert_ptr_eq(lent, name);
    ck_assert_uint_eq(size, 77);
}
END_TEST

START_TEST(lengths_to_set_attributes)
{
    static const size_t lengths[] = {0, 1, 3, 4, 5, 7, 8, 9, 16, SIZE_MAX};
    const char *name = "new";

    OK(set_name(attr, "old"));
    OK(set_depth(attr, 5));
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (lengths[i] != sizeof(name))
            FAILS(INVALID, acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, lengths[i], &name));
        if (lengths[i] != sizeof(uint32_t))
            FAILS(INVALID, acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, lengths[i], &name));
        expect_old_attributes();
    }
}
END_TEST

START_TEST(room_to_get_attributes)
{
    unsigned char param[64], untouched[64];
    size_t size = 77;

    memset(untouched, 0xa5, sizeof(untouched));
    for (size_t type = 0; type < 2; type++) {
        const size_t needed = type == ACL_TDT_QUEUE_NAME_PTR ? sizeof(char *) : sizeof(uint32_t);

        for (size_t len = 0; len < needed; len++) {
            memcpy(param, untouched, sizeof(param));
            size = 77;
            FAILS(INVALID, acltdtGetQueueAttr(attr, (acltdtQueueAttrType)type, len, &size, param));
            ck_assert_mem_eq(param, untouched, sizeof(param));
            ck_assert_uint_eq(size, 77);
        }
        for (size_t len = needed; len <= sizeof(param); len++) {
            memcpy(param, untouched, sizeof(param));
            OK(acltdtGetQueueAttr(attr, (acltdtQueueAttrType)type, len, &size, param));
            ck_assert_uint_eq(size, needed);
            ck_assert_mem_ne(param, untouched, needed);
            ck_assert_mem_eq(param + needed, untouched, sizeof(param) - needed);
        }
    }
}
END_TEST

START_TEST(nulls_to_get_attributes)
{
    for (int type = 0; type < 2; type++) {
        acltdtQueueAttrType t = (acltdtQueueAttrType)type;
        const char *param = "mine", *before = param;
        size_t size = 77;

        FAILS(INVALID, acltdtGetQueueAttr(NULL, t, sizeof(param), &size, &param));
        FAILS(INVALID, acltdtGetQueueAttr(attr, t, sizeof(param), NULL, &param));
        FAILS(INVALID, acltdtGetQueueAttr(attr, t, sizeof(param), &size, NULL));
        ck_assert_ptr_eq(param, before);
        ck_assert_uint_eq(size, 77);
    }
}
END_TEST

/* --- routes --- */

START_TEST(routes_hold_any_ids)
{
    static const uint32_t ids[] = {0, 1, 4095, 4096, INT32_MAX, UINT32_MAX};
    const size_t n = sizeof(ids) / sizeof(ids[0]);

    for (size_t i = 0; i < n * n; i++) {
        acltdtQueueRoute *route = make_route(ids[i / n], ids[i % n]);

        expect_route(route, ids[i / n], ids[i % n]);
        OK(acltdtDestroyQueueRoute(route));
    }
    FAILS(INVALID, acltdtDestroyQueueRoute(NULL));
}
END_TEST

START_TEST(room_to_get_route_params)
{
    acltdtQueueRoute *route = make_route(1, 2);
    unsigned char param[16], untouched[16];
    size_t size;

    memset(untouched, 0xa5, sizeof(untouched));
    for (int type = 0; type <= ACL_TDT_QUEUE_ROUTE_STATUS_INT32; type++)
        for (size_t len = 0; len <= sizeof(param); len++) {
            acltdtQueueRouteParamType t = (acltdtQueueRouteParamType)type;

            memcpy(param, untouched, sizeof(param));
            size = 77;
            if (len < 4) {
                FAILS(INVALID, acltdtGetQueueRouteParam(route, t, len, &size, param));
                ck_assert_mem_eq(param, untouched, sizeof(param));
                ck_assert_uint_eq(size, 77);
            } else {
                OK(acltdtGetQueueRouteParam(route, t, len, &size, param));
                ck_assert_uint_eq(size, 4);
                ck_assert_mem_ne(param, untouched, 4);
                ck_assert_mem_eq(param + 4, untouched, sizeof(param) - 4);
            }
        }
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

START_TEST(bad_input_to_get_route_params)
{
    static const int bad[] = {-1, 3, 100, INT32_MAX, INT32_MIN};
    acltdtQueueRoute *route = make_route(1, 2);
    uint32_t param = 66;
    size_t size = 77;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        FAILS(INVALID, acltdtGetQueueRouteParam(route, (acltdtQueueRouteParamType)bad[i],
                                                sizeof(param), &size, &param));
    for (int type = 0; type <= ACL_TDT_QUEUE_ROUTE_STATUS_INT32; type++) {
        acltdtQueueRouteParamType t = (acltdtQueueRouteParamType)type;

        FAILS(INVALID, acltdtGetQueueRouteParam(NULL, t, sizeof(param), &size, &param));
        FAILS(INVALID, acltdtGetQueueRouteParam(route, t, sizeof(param), NULL, &param));
        FAILS(INVALID, acltdtGetQueueRouteParam(route, t, sizeof(param), &size, NULL));
    }
    ck_assert_uint_eq(param, 66);
    ck_assert_uint_eq(size, 77);
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

/* --- lists --- */

static acltdtQueueRouteList *list;

static void make_list(void)
{
    list = acltdtCreateQueueRouteList();
    ck_assert_ptr_nonnull(list);
}

static void destroy_list(void)
{
    OK(acltdtDestroyQueueRouteList(list));
}

START_TEST(new_list)
{
    acltdtQueueRoute *route = make_route(1, 2);

    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), 0);
    FAILS(INVALID, acltdtGetQueueRoute(list, 0, route));
    expect_route(route, 1, 2);
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

START_TEST(null_lists)
{
    acltdtQueueRoute *route = make_route(1, 2);

    add_route(list, 3, 4);
    ck_assert_uint_eq(acltdtGetQueueRouteNum(NULL), 0);
    FAILS(INVALID, acltdtDestroyQueueRouteList(NULL));
    FAILS(INVALID, acltdtAddQueueRoute(NULL, route));
    FAILS(INVALID, acltdtAddQueueRoute(list, NULL));
    FAILS(INVALID, acltdtGetQueueRoute(NULL, 0, route));
    FAILS(INVALID, acltdtGetQueueRoute(list, 0, NULL));
    expect_route(route, 1, 2);
    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), 1);
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

/*
 * A copy, both ways: neither the route that was added nor the one that was read is tied to the
 * list.
 */
START_TEST(lists_copy)
{
    acltdtQueueRoute *added = make_route(1, 2), *got = make_route(77, 77);

    OK(acltdtAddQueueRoute(list, added));
    OK(acltdtGetQueueRoute(list, 0, got));
    add_route(list, 3, 4);
    OK(acltdtGetQueueRoute(list, 1, added)); /* written over, the list is not */
    expect_route(added, 3, 4);
    expect_route(got, 1, 2);
    expect_in_list(list, 0, 1, 2);
    OK(acltdtDestroyQueueRoute(added));
    expect_in_list(list, 1, 3, 4);
    OK(acltdtDestroyQueueRouteList(list));
    expect_route(got, 1, 2);
    OK(acltdtDestroyQueueRoute(got));
    make_list();
}
END_TEST

START_TEST(lists_copy_states)
{
    static const int32_t states[] = {ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL, ACL_TDT_QUEUE_ROUTE_BIND,
                                     ACL_TDT_QUEUE_ROUTE_UNBIND};
    acltdtQueueRoute *route = make_route(1, 2);
    size_t size;

    for (size_t i = 0; i < 3; i++) {
        route->status = states[i];
        OK(acltdtAddQueueRoute(list, route));
    }
    for (size_t i = 0; i < 3; i++) {
        int32_t status = 77;

        OK(acltdtGetQueueRoute(list, i, route));
        OK(acltdtGetQueueRouteParam(route, ACL_TDT_QUEUE_ROUTE_STATUS_INT32, sizeof(status), &size,
                                    &status));
        ck_assert_int_eq(status, states[i]);
    }
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

START_TEST(lists_keep_duplicates)
{
    acltdtQueueRoute *route = make_route(5, 6);

    for (int i = 0; i < 3; i++)
        OK(acltdtAddQueueRoute(list, route));
    add_route(list, 6, 5);
    add_route(list, 5, 6);
    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), 5);
    for (size_t i = 0; i < 5; i++)
        expect_in_list(list, i, i == 3 ? 6 : 5, i == 3 ? 5 : 6);
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

START_TEST(index_past_the_end)
{
    static const size_t beyond[] = {0, 1, 15, UINT32_MAX, SIZE_MAX / 2, SIZE_MAX - 40};
    acltdtQueueRoute *route = make_route(1, 2);

    for (uint32_t n = 1; n <= 40; n++) {
        add_route(list, n, n + 1);
        for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++)
            FAILS(INVALID, acltdtGetQueueRoute(list, n + beyond[i], route));
    }
    expect_route(route, 1, 2);
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

START_TEST(lists_are_apart)
{
    acltdtQueueRouteList *other = acltdtCreateQueueRouteList();

    ck_assert_ptr_nonnull(other);
    add_route(list, 1, 2);
    add_route(other, 3, 4);
    add_route(other, 5, 6);
    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), 1);
    ck_assert_uint_eq(acltdtGetQueueRouteNum(other), 2);
    OK(acltdtDestroyQueueRouteList(other));
    expect_in_list(list, 0, 1, 2);
}
END_TEST

START_TEST(a_hundred_thousand_routes)
{
    enum { N = 100000 };

    for (uint32_t i = 0; i < N; i++) {
        add_route(list, i, ~i);
        ck_assert_uint_eq(acltdtGetQueueRouteNum(list), i + 1);
    }
    for (uint32_t i = N; i-- > 0;)
        expect_in_list(list, i, i, ~i);
}
END_TEST

/* How much address space the process has. */
static rlim_t address_space(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

START_TEST(a_list_without_memory_stays_as_it_is)
{
    acltdtQueueRoute *route = make_route(1, 2);
    struct rlimit old, tight;
    aclError error = 0;
    uint32_t n = 0;

    ck_assert_int_eq(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = address_space() + (8 << 20);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    while (error == 0 && n < 8 << 20) {
        error = acltdtAddQueueRoute(list, route);
        n += error == 0;
    }
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
    ck_assert_int_eq(error, ACL_ERROR_BAD_ALLOC);
    ck_assert_ptr_nonnull(aclGetRecentErrMsg());
    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), n);
    expect_in_list(list, 0, 1, 2);
    expect_in_list(list, n - 1, 1, 2);
    add_route(list, 3, 4);
    expect_in_list(list, n, 3, 4);
    OK(acltdtDestroyQueueRoute(route));
}
END_TEST

/* --- queries: what they find is tested with bound routes --- */

static acltdtQueueRouteQueryInfo *query;

static void make_query(void)
{
    query = acltdtCreateQueueRouteQueryInfo();
    ck_assert_ptr_nonnull(query);
}

static void destroy_query(void)
{
    OK(acltdtDestroyQueueRouteQueryInfo(query));
}

static const acltdtQueueRouteQueryInfoParamType fields[] = {
    ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32,
    ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32};

static const uint32_t *value_of(acltdtQueueRouteQueryInfoParamType type)
{
    return type == ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM       ? &query->mode
           : type == ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32 ? &query->src
                                                             : &query->dst;
}

START_TEST(queries_take_any_value)
{
    static const uint32_t values[] = {ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST,
                                      ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL,
                                      ACL_TDT_QUEUE_ROUTE_QUERY_DST,
                                      ACL_TDT_QUEUE_ROUTE_QUERY_SRC,
                                      4096,
                                      UINT32_MAX};
    char odd[1 + sizeof(uint32_t)];

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        memcpy(odd + 1, &values[i], sizeof(values[i]));
        OK(acltdtSetQueueRouteQueryInfo(query, fields[_i], sizeof(values[i]), odd + 1));
        ck_assert_uint_eq(*value_of(fields[_i]), values[i]);
        ck_assert_uint_eq(query->configured, ROUTE_QUERY_HAS(fields[_i]));
    }
}
END_TEST

/* In any order, and 0 is a value like others. */
START_TEST(queries_know_what_is_set)
{
    uint32_t known = 0;

    ck_assert_uint_eq(query->configured, 0);
    for (int i = 0; i < 3; i++) {
        acltdtQueueRouteQueryInfoParamType type = fields[(_i + i) % 3];
        uint32_t value = (uint32_t)i;

        OK(acltdtSetQueueRouteQueryInfo(query, type, sizeof(value), &value));
        known |= ROUTE_QUERY_HAS(type);
        ck_assert_uint_eq(query->configured, known);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(*value_of(fields[(_i + i) % 3]), i);
}
END_TEST

START_TEST(queries_refuse)
{
    static const size_t lengths[] = {0, 1, 3, 5, 8, SIZE_MAX};
    static const int bad[] = {-1, 3, 32, 100, INT32_MAX, INT32_MIN};
    uint64_t value = UINT64_MAX;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        FAILS(INVALID, acltdtSetQueueRouteQueryInfo(query, fields[_i], lengths[i], &value));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        FAILS(INVALID, acltdtSetQueueRouteQueryInfo(
                           query, (acltdtQueueRouteQueryInfoParamType)bad[i], 4, &value));
    FAILS(INVALID, acltdtSetQueueRouteQueryInfo(query, fields[_i], 4, NULL));
    FAILS(INVALID, acltdtSetQueueRouteQueryInfo(NULL, fields[_i], 4, &value));
    FAILS(INVALID, acltdtDestroyQueueRouteQueryInfo(NULL));
    ck_assert_uint_eq(query->configured, 0);
    ck_assert_uint_eq(*value_of(fields[_i]), 0);
}
END_TEST

/* --- fork --- */

#define NONE_SAYING_FORKED(call)                                                                   \
    do {                                                                                           \
        const char *m_;                                                                            \
        ck_assert_ptr_null(call);                                                                  \
        m_ = aclGetRecentErrMsg();                                                                 \
        ck_assert_msg(m_ &&strstr(m_, "forked"), "%s: %s", #call, m_ ? m_ : "no sentence");        \
    } while (0)

/* Its copies of the parent's objects are its own memory; new ones it gets when it has begun. */
static int use_inherited(void *arg)
{
    (void)arg;
    NONE_SAYING_FORKED(acltdtCreateQueueAttr());
    NONE_SAYING_FORKED(acltdtCreateQueueRoute(1, 2));
    NONE_SAYING_FORKED(acltdtCreateQueueRouteList());
    NONE_SAYING_FORKED(acltdtCreateQueueRouteQueryInfo());
    OK(aclInit(NULL));
    ck_assert_str_eq(name_of(attr), "parent");
    OK(set_name(attr, "child"));
    expect_in_list(list, 0, 1, 2);
    add_route(list, 3, 4);
    destroy_attr();
    make_attr();
    ck_assert_str_eq(name_of(attr), "");
    destroy_attr();
    destroy_list();
    OK(aclFinalize());
    return 0;
}

START_TEST(forked_children)
{
    make_attr();
    make_list();
    OK(set_name(attr, "parent"));
    add_route(list, 1, 2);
    child_expect_ok(child_start(use_inherited, NULL));
    ck_assert_str_eq(name_of(attr), "parent");
    ck_assert_uint_eq(acltdtGetQueueRouteNum(list), 1);
    destroy_attr();
    destroy_list();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue objects");
    TCase *attributes = suite_case(s, "attributes", 60, make_attr, destroy_attr);
    TCase *routes = suite_case(s, "routes", 60, NULL, NULL);
    TCase *lists = suite_case(s, "lists", 60, make_list, destroy_list);
    TCase *queries = suite_case(s, "queries", 60, make_query, destroy_query);

    tcase_add_test(attributes, new_attributes);
    tcase_add_test(attributes, null_attributes);
    tcase_add_test(attributes, names_of_every_length);
    tcase_add_loop_test(attributes, a_name_too_long_is_not_set, 0,
                        sizeof(too_long) / sizeof(too_long[0]));
    tcase_add_test(attributes, a_name_that_is_not_there);
    tcase_add_test(attributes, a_name_is_copied);
    tcase_add_test(attributes, a_name_is_lent_until_it_is_changed);
    tcase_add_test(attributes, a_lent_name_may_be_set);
    tcase_add_test(attributes, attributes_have_their_own_names);
    tcase_add_test(attributes, any_depth_is_kept);
    tcase_add_test(attributes, attributes_at_odd_addresses);
    tcase_add_loop_test(attributes, attributes_of_no_type, 0, N_BAD_TYPES);
    tcase_add_test(attributes, lengths_to_set_attributes);
    tcase_add_test(attributes, room_to_get_attributes);
    tcase_add_test(attributes, nulls_to_get_attributes);
    tcase_add_test(routes, routes_hold_any_ids);
    tcase_add_test(routes, room_to_get_route_params);
    tcase_add_test(routes, bad_input_to_get_route_params);
    tcase_add_test(routes, forked_children);
    tcase_add_test(lists, new_list);
    tcase_add_test(lists, null_lists);
    tcase_add_test(lists, lists_copy);
    tcase_add_test(lists, lists_copy_states);
    tcase_add_test(lists, lists_keep_duplicates);
    tcase_add_test(lists, index_past_the_end);
    tcase_add_test(lists, lists_are_apart);
    tcase_add_test(lists, a_hundred_thousand_routes);
    if (CAN_LIMIT_MEMORY)
        tcase_add_test(lists, a_list_without_memory_stays_as_it_is);
    tcase_add_loop_test(queries, queries_take_any_value, 0, 3);
    tcase_add_loop_test(queries, queries_know_what_is_set, 0, 3);
    tcase_add_loop_test(queries, queries_refuse, 0, 3);
    return run_suite(s);
}
