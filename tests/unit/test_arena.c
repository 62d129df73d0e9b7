/*
 * What a file of the arena costs its user: a descriptor, a mapping, its size and that of npud's
 * record of it, refused by the exact limit. A refused object leaves nothing charged.
 */
#include "npud.h"

#include <sys/resource.h>
#include <sys/stat.h>

static struct session *session;

static void begin(void)
{
    npud_start((const char *const[]){"sim.devices=1", NULL});
    session = npud_session(1);
}

static uint64_t used_of(enum resource resource)
{
    return user_used(session->user, resource);
}

static enum cause make_event(int *fd)
{
    struct event_obj *event;

    return event_obj_new(session, 0, 0, &event, fd);
}

static enum cause make_stream(int *fd)
{
    struct stream *stream;

    return stream_new(session, session_attach(session, 0), 0, 0, 0, &stream, fd);
}

/* A kind of objects whose first file is not there yet. */
struct kind {
    struct slots *table;
    struct arena_files *files;
    size_t size;
    enum resource resource;
    enum cause (*make)(int *fd);
};

static void expect_refused(const struct kind *kind, enum cause cause)
{
    uint64_t maps = used_of(RESOURCE_MAPPINGS), bytes = used_of(RESOURCE_TABLE_MEMORY);
    uint64_t fds = used_of(RESOURCE_FDS);
    int fd;

    ck_assert_int_eq(kind->make(&fd), cause);
    ck_assert_int_eq(fd, -1);
    ck_assert(kind->files->n == 0 || !kind->files->file[0]);
    ck_assert_uint_eq(used_of(RESOURCE_FDS), fds);
    ck_assert_uint_eq(used_of(RESOURCE_MAPPINGS), maps);
    ck_assert_uint_eq(used_of(RESOURCE_TABLE_MEMORY), bytes);
    ck_assert_uint_eq(used_of(kind->resource), 0);
}

#define OBJECTS 4

/* The table grows before, so that what an object is charged is the file alone. */
static void grow_table(const struct kind *kind)
{
    void *object[OBJECTS];
    enum cause cause;

    for (unsigned i = 0; i < OBJECTS; i++) {
        object[i] = session_take_slot(session, kind->table, CAUSE_MEMORY, &cause);
        ck_assert_ptr_nonnull(object[i]);
    }
    for (unsigned i = OBJECTS; i-- > 0;)
        session_put_slot(session, kind->table, object[i]);
}

static void charge_file(const struct kind *kind)
{
    uint64_t fds, maps, bytes;
    int fd;

    grow_table(kind);
    fds = used_of(RESOURCE_FDS);
    maps = used_of(RESOURCE_MAPPINGS);
    bytes = used_of(RESOURCE_TABLE_MEMORY);
    config.limit[RESOURCE_MAPPINGS] = maps;
    expect_refused(kind, CAUSE_USER_MAPPINGS);
    config.limit[RESOURCE_MAPPINGS] = maps + 1;
    config.limit[RESOURCE_TABLE_MEMORY] = bytes + kind->size - 1;
    expect_refused(kind, CAUSE_USER_TABLE_MEMORY);
    config.limit[RESOURCE_TABLE_MEMORY] = bytes + kind->size;
    config.limit[RESOURCE_FDS] = fds;
    expect_refused(kind, CAUSE_USER_DESCRIPTORS);
    config.limit[RESOURCE_FDS] = fds + 1;
    ck_assert_int_eq(kind->make(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, kind->files->file[0]->fd);
    ck_assert_uint_eq(used_of(RESOURCE_FDS), fds + 1);
    ck_assert_uint_eq(used_of(RESOURCE_MAPPINGS), maps + 1);
    ck_assert_uint_eq(used_of(RESOURCE_TABLE_MEMORY), bytes + kind->size);
    /* The next object stands in the same file, which the client has, if it does not object. */
    ck_assert_int_eq(kind->make(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, -1);
    session_arena_file_resend(kind->files, 0);
    session_arena_file_resend(kind->files, 1); /* there is none */
    ck_assert_int_eq(kind->make(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, kind->files->file[0]->fd);
    ck_assert_int_eq(kind->make(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, -1);
    ck_assert_uint_eq(used_of(RESOURCE_FDS), fds + 1);
    ck_assert_uint_eq(used_of(kind->resource), OBJECTS);
}

START_TEST(a_segment_of_events_is_charged)
{
    const struct kind events = {&session->events, &session->event_files,
                                arena_event_file_size() + ARENA_RECORD_HEAD +
                                    ARENA_EVENTS * sizeof(struct event_kept),
                                RESOURCE_EVENTS, make_event};

    charge_file(&events);
}
END_TEST

START_TEST(a_segment_of_streams_is_charged)
{
    const struct kind streams = {&session->streams, &session->stream_files,
                                 arena_stream_file_size(session->ring_depth) + ARENA_RECORD_HEAD +
                                     ARENA_STREAMS * sizeof(struct stream_kept),
                                 RESOURCE_STREAMS, make_stream};

    charge_file(&streams);
}
END_TEST

/* Beside socket and pidfd, which session_new() charges, and a doorbell per device. */
START_TEST(a_page_is_charged)
{
    struct session *newer;

    ck_assert_uint_eq(used_of(RESOURCE_FDS), 2 + 1 + 1);
    newer = npud_session(2);
    ck_assert_uint_eq(used_of(RESOURCE_FDS), 2 * (2 + 1 + 1));
    session_free(newer);
    ck_assert_uint_eq(used_of(RESOURCE_FDS), 2 + 1 + 1);
    config.limit[RESOURCE_FDS] = used_of(RESOURCE_FDS) + 2;
    newer = session_new_for(&server, eventfd(0, EFD_CLOEXEC),
                            &(struct client_process){.pid = 2, .uid = 1000, .pidfd = -1});
    ck_assert_ptr_nonnull(newer);
    ck_assert_int_eq(session_hello(newer, "unit test"), CAUSE_USER_SESSION_DESCRIPTORS);
    config.limit[RESOURCE_FDS]++;
    ck_assert_int_eq(session_hello(newer, "unit test"), CAUSE_NONE);
}
END_TEST

/* So that descriptors which libevent polls get the numbers of earlier ones. */
START_TEST(kept_descriptors_stand_apart)
{
    struct rlimit limit;
    int fd;

    server.fds = 400;
    ck_assert_int_eq(make_event(&fd), CAUSE_NONE);
    ck_assert_int_ge(fd, 200);
    ck_assert_int_eq(make_stream(&fd), CAUSE_NONE);
    ck_assert_int_ge(fd, 200);
    ck_assert_int_ge(npud_session(2)->page_fd, 200);
    /* If the kernel has no such numbers, they stay where they are. */
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_lt(npud_session(3)->page_fd, 100);
}
END_TEST

/* --- other memory for a file without objects --- */

/* By which its file is told from another. */
static ino_t inode_of(const struct arena_file *file)
{
    struct stat st;

    ck_assert_int_eq(fstat(file->fd, &st), 0);
    return st.st_ino;
}

/* A stream that lives would have its tasks in memory that is gone. */
START_TEST(only_a_segment_without_streams_is_renewed)
{
    struct arena_files *files = &session->stream_files;
    struct stream_ctrl *ctrl;
    struct stream *stream[2];
    uint64_t fds, maps, bytes;
    ino_t inode;
    int fd;

    ck_assert_int_eq(session_arena_file_renew(files, 0), CAUSE_NO_OBJECT);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(stream_new(session, session_attach(session, 0), 0, 0, 0, &stream[i], &fd),
                         CAUSE_NONE);
    inode = inode_of(files->file[0]);
    ctrl = stream[1]->ctrl;
    stream[1]->ring[0].op = 1;
    fds = used_of(RESOURCE_FDS);
    maps = used_of(RESOURCE_MAPPINGS);
    bytes = used_of(RESOURCE_TABLE_MEMORY);
    stream_free(stream[1]);
    atomic_store(&ctrl->done, 77);
    ck_assert_int_eq(session_arena_file_renew(files, 0), CAUSE_ARENA_USED);
    ck_assert_uint_eq(inode_of(files->file[0]), inode);
    stream_free(stream[0]);
    ck_assert_int_eq(session_arena_file_renew(files, 0), CAUSE_NONE);
    ck_assert_uint_ne(inode_of(files->file[0]), inode);
    ck_assert_uint_eq(used_of(RESOURCE_FDS), fds);
    ck_assert_uint_eq(used_of(RESOURCE_MAPPINGS), maps);
    ck_assert_uint_eq(used_of(RESOURCE_TABLE_MEMORY), bytes);
    /* Positions of streams that are gone read as before, and their tasks are gone. */
    ctrl = arena_stream_ctrl(files->file[0]->map, 1);
    ck_assert_uint_eq(atomic_load(&ctrl->done), 77);
    ck_assert_uint_eq(arena_stream_ring(files->file[0]->map, 1, session->ring_depth)[0].op, 0);
    ck_assert_int_eq(make_stream(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, files->file[0]->fd);
}
END_TEST

/* One that was destroyed, and that a stream is still to pass, is there. */
START_TEST(only_a_segment_without_events_is_renewed)
{
    struct arena_files *files = &session->event_files;
    struct event_obj *event;
    ino_t inode;
    int fd;

    ck_assert_int_eq(event_obj_new(session, 0, 0, &event, &fd), CAUSE_NONE);
    inode = inode_of(files->file[0]);
    atomic_store(&event->shm->records, 5);
    event_obj_set_closing(event, true);
    ck_assert_int_eq(session_arena_file_renew(files, 0), CAUSE_ARENA_USED);
    event_obj_free(session, event);
    ck_assert_int_eq(session_arena_file_renew(files, 0), CAUSE_NONE);
    ck_assert_uint_ne(inode_of(files->file[0]), inode);
    ck_assert_uint_eq(atomic_load(&arena_event(files->file[0]->map, 0)->records), 0);
    ck_assert_int_eq(make_event(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, files->file[0]->fd);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arena");
    TCase *c = suite_case(s, "segments", 30, begin, npud_stop);

    tcase_add_test(c, a_segment_of_events_is_charged);
    tcase_add_test(c, a_segment_of_streams_is_charged);
    tcase_add_test(c, a_page_is_charged);
    tcase_add_test(c, only_a_segment_without_streams_is_renewed);
    tcase_add_test(c, only_a_segment_without_events_is_renewed);
    tcase_add_test(c, kept_descriptors_stand_apart);
    return run_suite(s);
}
