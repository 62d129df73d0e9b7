/* npud's side of queues: rights, grants, feeds, new rings, who is told of whose end, what a dead session has left in a ring. */
#include "npud.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>

#include "acl/acl_base.h"
#include "daemon/grant.h"
#include "daemon/queue.h"

START_TEST(a_queue_lives_as_long_as_somebody_has_it)
{
    struct queue_attach *a;
    struct session *s;

    npud_start(NULL);
    s = npud_session(100);
    ck_assert_int_eq(queue_new(s, "", 1, &a), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(queue_new(s, "", 8193, &a), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(queue_new(s, "", 8, &a), 0);
    ck_assert_uint_eq(a->rights, QUEUE_RIGHTS);
    ck_assert_str_eq(a->queue->name, "queue-0");
    ck_assert_ptr_eq(queue_attached(s, a->queue->id), a);
    session_free(s);
    ck_assert_uint_eq(server.queues.n, 0);
    npud_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tc = tcase_create("queue");

    tcase_add_test(tc, a_queue_lives_as_long_as_somebody_has_it);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
