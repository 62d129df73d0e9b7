/* npud's side of channels: which sessions find which, and when one ends. */
#include "npud.h"

#include "daemon/buffers/channel.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/queue.h"

#define DEPTH 4

/* As on_open_channel(). */
static struct queue_attach *open_channel(struct session *s, uint32_t device, const char *name)
{
    struct queue *queue = channel_find(s->user, device, name);
    struct queue_attach *attach;

    if (queue)
        attach = channel_join(s, queue);
    else
        ck_assert_int_eq(queue_new_channel(s, device, name, DEPTH, &attach), 0);
    ck_assert_ptr_nonnull(attach);
    return attach;
}

START_TEST(a_name_on_a_device_is_one_channel)
{
    struct session *s, *other;
    struct queue *queue;

    npud_start(NULL);
    s = npud_session(100);
    other = npud_session(101);
    queue = open_channel(s, 0, "name")->queue;
    ck_assert_str_eq(queue->name, "name");
    ck_assert_uint_eq(open_channel(s, 0, "name")->rights, QUEUE_TAKE | QUEUE_PUT);
    ck_assert_ptr_eq(open_channel(s, 0, "name")->queue, queue);
    ck_assert_ptr_eq(open_channel(other, 0, "name")->queue, queue);
    ck_assert_ptr_ne(open_channel(other, 1, "name")->queue, queue);
    ck_assert_ptr_ne(open_channel(other, 0, "name2")->queue, queue);
    ck_assert_ptr_ne(open_channel(other, 0, "nam")->queue, queue);
    ck_assert_uint_eq(server.queues->n, 4);
    session_free(s);
    ck_assert_ptr_eq(channel_find(other->user, 0, "name"), queue);
    session_free(other);
    ck_assert_uint_eq(server.queues->n, 0);
    npud_stop();
}
END_TEST

START_TEST(a_channel_is_found_by_its_user_alone)
{
    struct session *s, *other;
    struct queue *queue;

    npud_start(NULL);
    s = npud_session_of(1000, 100);
    other = npud_session_of(1001, 101);
    queue = open_channel(s, 0, "name")->queue;
    ck_assert_ptr_null(channel_find(other->user, 0, "name"));
    ck_assert_ptr_ne(open_channel(other, 0, "name")->queue, queue);
    ck_assert_ptr_eq(channel_find(s->user, 0, "name"), queue);
    session_free(s);
    session_free(other);
    npud_stop();
}
END_TEST

START_TEST(a_queue_of_that_name_is_no_channel)
{
    struct queue_attach *attach;
    struct session *s;

    npud_start(NULL);
    s = npud_session(100);
    ck_assert_int_eq(queue_new(s, "name", DEPTH, &attach), 0);
    ck_assert_ptr_null(channel_find(s->user, 0, "name"));
    ck_assert_int_eq(channel_leave(attach), CAUSE_CHANNEL_NONE);
    ck_assert_ptr_ne(open_channel(s, 0, "name")->queue, attach->queue);
    session_free(s);
    npud_stop();
}
END_TEST

static void leave(struct queue_attach *attach)
{
    enum cause cause;

    while ((cause = channel_leave(attach)) == CAUSE_QUEUE_REVOKING || cause == CAUSE_QUEUE_ENDING)
        npud_turn();
    ck_assert_int_eq(cause, CAUSE_NONE);
}

START_TEST(it_ends_with_the_last_that_leaves)
{
    struct queue_attach *a, *b;
    struct session *s, *other;
    struct queue *queue;
    uint32_t ring;

    npud_start(NULL);
    s = npud_session(100);
    other = npud_session(101);
    a = open_channel(s, 0, "name");
    b = open_channel(other, 0, "name");
    queue = a->queue;
    ring = queue->ring.view.number;
    leave(a);
    while (queue->rest)
        npud_turn();
    /* The session that has left still maps the old ring. */
    ck_assert_uint_ne(queue->ring.view.number, ring);
    ck_assert_ptr_null(queue_attached(s, queue->id));
    ck_assert_uint_eq(atomic_load(&queue->ring.view.news->puts.gone), 1);
    ck_assert_int_eq(atomic_load(&queue->ring.view.news->puts.pid), 100);
    ck_assert_uint_eq(atomic_load(&queue->ring.view.news->puts.n), 1);
    a = open_channel(s, 0, "name");
    ck_assert_ptr_eq(a->queue, queue);
    ck_assert_uint_eq(atomic_load(&queue->ring.view.news->puts.gone), 0);
    leave(b);
    leave(a);
    ck_assert_ptr_null(channel_find(s->user, 0, "name"));
    ck_assert_uint_eq(server.queues->n, 0);
    session_free(s);
    session_free(other);
    npud_stop();
}
END_TEST

/* npud ends it in steps: the name is free at once. */
START_TEST(one_that_ends_is_not_found)
{
    struct queue_attach *a, *b;
    struct session *s;

    npud_start(NULL);
    s = npud_session(100);
    a = open_channel(s, 0, "name");
    ck_assert(queue_finish_some(a->queue, a));
    ck_assert_ptr_null(channel_find(s->user, 0, "name"));
    b = open_channel(s, 0, "name");
    ck_assert_ptr_ne(a->queue, b->queue);
    queue_destroy(a->queue);
    ck_assert_ptr_eq(channel_find(s->user, 0, "name"), b->queue);
    session_free(s);
    npud_stop();
}
END_TEST

START_TEST(no_process_manages_it)
{
    struct queue_attach *a;
    struct session *s;

    npud_start(NULL);
    s = npud_session(100);
    a = open_channel(s, 0, "name");
    ck_assert_uint_eq(a->rights & QUEUE_MANAGE, 0);
    ck_assert_ptr_null(a->queue->grants);
    session_free(s);
    npud_stop();
}
END_TEST

START_TEST(a_bad_channel_leaves_nothing)
{
    char name[QUEUE_NAME + 1];
    struct queue_attach *attach;
    struct session *s;

    npud_start((const char *const[]){"limits.queues=1", NULL});
    s = npud_session(100);
    memset(name, 'n', QUEUE_NAME);
    name[QUEUE_NAME] = '\0';
    ck_assert_ptr_null(channel_find(s->user, 0, name));
    ck_assert_int_eq(queue_new_channel(s, 0, name, DEPTH, &attach), CAUSE_QUEUE_NAME);
    ck_assert_int_eq(queue_new_channel(s, 0, "name", 1, &attach), CAUSE_QUEUE_DEPTH);
    open_channel(s, 0, "name");
    ck_assert_int_eq(queue_new_channel(s, 0, "more", DEPTH, &attach), CAUSE_USER_QUEUES);
    ck_assert_ptr_null(channel_find(s->user, 0, "more"));
    ck_assert_uint_eq(server.queues->n, 1);
    session_free(s);
    npud_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("channel");
    TCase *t = suite_case(s, "channel", 60, NULL, NULL);

    tcase_add_test(t, a_name_on_a_device_is_one_channel);
    tcase_add_test(t, a_channel_is_found_by_its_user_alone);
    tcase_add_test(t, a_queue_of_that_name_is_no_channel);
    tcase_add_test(t, it_ends_with_the_last_that_leaves);
    tcase_add_test(t, one_that_ends_is_not_found);
    tcase_add_test(t, no_process_manages_it);
    tcase_add_test(t, a_bad_channel_leaves_nothing);
    return run_suite(s);
}
