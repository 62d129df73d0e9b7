/*
 * Allocators that are registered for streams: what the library keeps of them, and for how long.
 *
 * Skipped under TSan: the test asks one call after the other.
 */
#include "tests/common/harness.h"

#define BAD ACL_ERROR_INVALID_PARAM

static aclrtStream stream, other;
static int one, two; /* objects */

static void *allocate(aclrtAllocator allocator, size_t size)
{
    (void)size;
    return allocator;
}

static void release(aclrtAllocator allocator, aclrtAllocatorBlock block)
{
    (void)allocator, (void)block;
}

static void *allocate_advise(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr address)
{
    (void)size, (void)address;
    return allocator;
}

static void *get_address(aclrtAllocatorBlock block)
{
    return block;
}

static void set_up_test(void)
{
    npud_setup();
    streams_open(&stream, &other);
}

static aclrtAllocatorDesc desc_new(void *object)
{
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();

    ck_assert_ptr_nonnull(desc);
    OK(aclrtAllocatorSetObjToDesc(desc, object));
    OK(aclrtAllocatorSetAllocFuncToDesc(desc, allocate));
    OK(aclrtAllocatorSetFreeFuncToDesc(desc, release));
    OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, get_address));
    return desc;
}

struct registered {
    aclrtAllocatorDesc desc;
    aclrtAllocator object;
    aclrtAllocatorAllocFunc allocate;
    aclrtAllocatorFreeFunc release;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc address;
};

static aclError get(aclrtStream s, struct registered *r)
{
    return aclrtAllocatorGetByStream(s, &r->desc, &r->object, &r->allocate, &r->release, &r->advise,
                                     &r->address);
}

static void expect_none(aclrtStream s)
{
    struct registered r = {0};

    FAILS_SAYING(BAD, "no allocator is registered", get(s, &r));
    ck_assert_ptr_null(r.object);
}

static void expect_object(aclrtStream s, void *object)
{
    struct registered r = {0};

    OK(get(s, &r));
    ck_assert_ptr_eq(r.object, object);
}

START_TEST(what_is_registered_comes_back)
{
    aclrtAllocatorDesc desc = desc_new(&one);
    struct registered r;

    expect_none(stream);
    OK(aclrtAllocatorRegister(stream, desc));
    OK(get(stream, &r));
    ck_assert_ptr_eq(r.desc, desc);
    ck_assert_ptr_eq(r.object, &one);
    ck_assert(r.allocate == allocate && r.release == release && r.address == get_address);
    ck_assert(r.advise == NULL);
    expect_none(other);
    OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, allocate_advise));
    OK(get(stream, &r));
    ck_assert(r.advise == NULL); /* it was copied before */
    OK(aclrtAllocatorRegister(stream, desc));
    OK(aclrtAllocatorDestroyDesc(desc));
    OK(get(stream, &r));
    ck_assert(r.advise == allocate_advise);
}
END_TEST

START_TEST(the_last_registration_counts)
{
    aclrtAllocatorDesc first = desc_new(&one), second = desc_new(&two);
    aclrtStream zero;

    OK(aclrtAllocatorRegister(stream, first));
    OK(aclrtAllocatorRegister(other, second));
    expect_object(stream, &one);
    expect_object(other, &two);
    OK(aclrtAllocatorRegister(stream, second));
    expect_object(stream, &two);
    OK(aclrtCtxGetCurrentDefaultStream(&zero));
    OK(aclrtAllocatorRegister(zero, first));
    expect_object(zero, &one);
    OK(aclrtAllocatorUnregister(stream));
    OK(aclrtAllocatorUnregister(stream));
    expect_none(stream);
    expect_object(other, &two);
    OK(aclrtAllocatorDestroyDesc(first));
    OK(aclrtAllocatorDestroyDesc(second));
}
END_TEST

START_TEST(registrations_go_with_their_stream)
{
    aclrtAllocatorDesc desc = desc_new(&one);
    aclrtStream gone = stream;

    OK(aclrtAllocatorRegister(stream, desc));
    OK(aclrtDestroyStream(stream));
    expect_none(gone);
    OK(aclrtAllocatorUnregister(gone));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtAllocatorRegister(gone, desc));
    OK(aclrtCreateStream(&stream));
    expect_none(stream);
    OK(aclrtAllocatorRegister(stream, desc));
    OK(aclrtResetDevice(0));
    expect_none(stream);
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    expect_none(stream);
    OK(aclrtAllocatorDestroyDesc(desc));
}
END_TEST

START_TEST(null_and_garbage)
{
    aclrtAllocatorDesc desc = desc_new(&one);
    struct registered r;

    FAILS(BAD, aclrtAllocatorDestroyDesc(NULL));
    FAILS(BAD, aclrtAllocatorSetObjToDesc(NULL, &one));
    FAILS(BAD, aclrtAllocatorSetObjToDesc(desc, NULL));
    FAILS(BAD, aclrtAllocatorSetAllocFuncToDesc(NULL, allocate));
    FAILS(BAD, aclrtAllocatorSetAllocFuncToDesc(desc, NULL));
    FAILS(BAD, aclrtAllocatorSetFreeFuncToDesc(NULL, release));
    FAILS(BAD, aclrtAllocatorSetFreeFuncToDesc(desc, NULL));
    FAILS(BAD, aclrtAllocatorSetAllocAdviseFuncToDesc(NULL, allocate_advise));
    FAILS(BAD, aclrtAllocatorSetAllocAdviseFuncToDesc(desc, NULL));
    FAILS(BAD, aclrtAllocatorSetGetAddrFromBlockFuncToDesc(NULL, get_address));
    FAILS(BAD, aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, NULL));
    FAILS(BAD, aclrtAllocatorRegister(NULL, desc));
    FAILS(BAD, aclrtAllocatorRegister(stream, NULL));
    FAILS(BAD, aclrtAllocatorUnregister(NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtAllocatorRegister(&one, desc));
    OK(aclrtAllocatorUnregister(&one));
    expect_none(&one);
    OK(aclrtAllocatorRegister(stream, desc));
    FAILS(BAD, get(NULL, &r));
    for (int i = 0; i < 6; i++)
        FAILS(BAD,
              aclrtAllocatorGetByStream(stream, i == 0 ? NULL : &r.desc, i == 1 ? NULL : &r.object,
                                        i == 2 ? NULL : &r.allocate, i == 3 ? NULL : &r.release,
                                        i == 4 ? NULL : &r.advise, i == 5 ? NULL : &r.address));
    OK(aclrtAllocatorDestroyDesc(desc));
}
END_TEST

static void fill_without(aclrtAllocatorDesc desc, int left_out)
{
    if (left_out != 0)
        OK(aclrtAllocatorSetObjToDesc(desc, &one));
    if (left_out != 1)
        OK(aclrtAllocatorSetAllocFuncToDesc(desc, allocate));
    if (left_out != 2)
        OK(aclrtAllocatorSetFreeFuncToDesc(desc, release));
    if (left_out != 3)
        OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, get_address));
}

START_TEST(descriptors_must_be_complete)
{
    static const char *const says[] = {"no object", "no function to allocate",
                                       "no function to free", "no function for the address"};
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();

    fill_without(desc, _i);
    FAILS_SAYING(BAD, says[_i], aclrtAllocatorRegister(stream, desc));
    expect_none(stream);
    fill_without(desc, -1);
    OK(aclrtAllocatorRegister(stream, desc));
    OK(aclrtAllocatorDestroyDesc(desc));
}
END_TEST

/* Descriptors need no context and no npud. */
START_TEST(without_a_session)
{
    aclrtAllocatorDesc desc = desc_new(&one);

    OK(aclrtAllocatorUnregister(&one));
    expect_none(&one);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtAllocatorRegister(&one, desc));
    OK(aclrtAllocatorDestroyDesc(desc));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("allocator");
    TCase *t = suite_case(s, "allocators", 30, set_up_test, npud_teardown);
    TCase *bare = suite_case(s, "bare", 30, NULL, NULL);

    tcase_add_test(t, what_is_registered_comes_back);
    tcase_add_test(t, the_last_registration_counts);
    tcase_add_test(t, registrations_go_with_their_stream);
    tcase_add_test(t, null_and_garbage);
    tcase_add_loop_test(t, descriptors_must_be_complete, 0, 4);
    tcase_add_test(bare, without_a_session);
    return run_suite(s);
}
