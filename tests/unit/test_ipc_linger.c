/*
 * IPC events that linger, and what their users are charged for: an event that is not opened lingers
 * on.
 */
#include "npud.h"

static const char *const settings[] = {"ipc.scope=any", NULL};

static struct session *creator, *other;
static struct ipc_handle handle;

static void start_lingering(void)
{
    struct ipc_open *open;

    npud_start(settings);
    creator = npud_session_of(1000, 1);
    other = npud_session_of(1001, 2);
    ck_assert_int_eq(ipc_event_new(creator, 0, &open), 0);
    ck_assert_int_eq(ipc_event_export(open), 0);
    handle = open->event->handle;
    ipc_open_free(open);
    ck_assert_uint_eq(server.ipc->lingering, 1);
}

/*
 * Both users have more than they may have from now on, as when others have come. Guards against the
 * loss of an event that another user could not open.
 */
START_TEST(refused_opener_ends_no_event)
{
    uint64_t limit = config.limit[RESOURCE_FDS];
    struct ipc_open *open;

    config.limit[RESOURCE_FDS] = 1;
    ck_assert_int_eq(ipc_event_open(other, &handle, &open), CAUSE_USER_IPC_EVENT_DESCRIPTORS);
    ck_assert_uint_eq(server.ipc->lingering, 1);
    config.limit[RESOURCE_FDS] = limit;
    ck_assert_int_eq(ipc_event_open(other, &handle, &open), 0);
    ck_assert_uint_eq(server.ipc->lingering, 0);
}
END_TEST

/* What the event is charged for while it lingers, its user's opener is charged for afterwards. */
START_TEST(opener_brings_no_charge)
{
    const struct user *user = creator->user;
    uint64_t fds = user->used[RESOURCE_FDS], mappings = user->used[RESOURCE_MAPPINGS];
    uint64_t limit = config.limit[RESOURCE_FDS];
    struct ipc_open *open;

    config.limit[RESOURCE_FDS] = config.limit[RESOURCE_IPC_EVENTS] = 1;
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(ipc_event_open(creator, &handle, &open), 0);
        ck_assert_uint_eq(server.ipc->lingering, 0);
        ck_assert_uint_eq(user->used[RESOURCE_IPC_EVENTS], 1);
        ck_assert_uint_eq(user->used[RESOURCE_FDS], fds);
        ck_assert_uint_eq(user->used[RESOURCE_MAPPINGS], mappings);
        config.limit[RESOURCE_FDS] = limit;
        ipc_open_free(open);
        config.limit[RESOURCE_FDS] = 1;
        ck_assert_uint_eq(server.ipc->lingering, 1);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ipc_linger");
    TCase *c = suite_case(s, "ipc_linger", 60, start_lingering, npud_stop);

    tcase_add_test(c, refused_opener_ends_no_event);
    tcase_add_test(c, opener_brings_no_charge);
    return run_suite(s);
}
