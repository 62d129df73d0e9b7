/*
 * A call has found its stream, and another thread ends that before the call locks anything: the
 * stream that has the slot then is not the call's. What the other thread does is done by the test,
 * between the two (mk/test.mk, --wrap). Linked with the objects of the library, as its other rooms
 * are.
 */
#include "client/runtime/abort.h"
#include "tests/common/harness.h"

int __real_abort_stream(struct stream *s, uint32_t tag, const char *function, int32_t code);
int __wrap_abort_stream(struct stream *s, uint32_t tag, const char *function, int32_t code);

static aclrtStream stream, next;
static void (*between)(void); /* NULL: nothing */

int __wrap_abort_stream(struct stream *s, uint32_t tag, const char *function, int32_t code)
{
    if (between)
        between();
    return __real_abort_stream(s, tag, function, code);
}

static aclrtStreamStatus status_of(aclrtStream s)
{
    aclrtStreamStatus status;

    OK(aclrtStreamQuery(s, &status));
    return status;
}

static uint64_t place_of(aclrtStream s)
{
    return (uint64_t)(uintptr_t)s & 0xffffff; /* client/core/handle.h */
}

/* Another stream with work, in the same place. */
static void replace_stream(void)
{
    OK(aclrtDestroyStream(stream));
    OK(aclrtCreateStream(&next));
    ck_assert_uint_eq(place_of(next), place_of(stream));
    stream_hold(next);
}

START_TEST(an_abort_is_of_the_stream_that_it_has_found)
{
    aclrtStream other;

    streams_open(&stream, &other);
    between = replace_stream;
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamAbort(stream));
    between = NULL;
    ck_assert_int_eq(status_of(next), ACL_STREAM_STATUS_NOT_READY);
    OK(aclrtStreamAbort(next));
    ck_assert_int_eq(status_of(next), ACL_STREAM_STATUS_COMPLETE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream window");
    TCase *c = suite_case(suite, "streams", 10, npud_setup, npud_teardown);

    tcase_add_test(c, an_abort_is_of_the_stream_that_it_has_found);
    return run_suite(suite);
}
