#include "client/core/lifecycle.h"

#define CALL_EACH(hook, ...)                                                                       \
    do {                                                                                           \
        for (const struct part *const *p = lifecycle_parts; *p; p++)                               \
            if ((*p)->hook)                                                                        \
                (*p)->hook(__VA_ARGS__);                                                           \
    } while (0)

void lifecycle_fork_child(void)
{
    CALL_EACH(fork_child);
}

void lifecycle_thread_exit(struct thread *t)
{
    CALL_EACH(thread_exit, t);
}

void lifecycle_session_init(struct session *s, uint32_t seed)
{
    CALL_EACH(session_init, s, seed);
}

int lifecycle_session_begin(struct session *s, const char *function)
{
    int error = 0;

    for (const struct part *const *p = lifecycle_parts; *p && error == 0; p++)
        if ((*p)->session_begin)
            error = (*p)->session_begin(s, function);
    return error;
}

void lifecycle_session_lost(struct session *s)
{
    CALL_EACH(session_lost, s);
}

void lifecycle_session_end(struct session *s)
{
    CALL_EACH(session_end, s);
}

void lifecycle_session_forget(struct session *s)
{
    CALL_EACH(session_forget, s);
}

void lifecycle_session_leave(struct session *s)
{
    CALL_EACH(session_leave, s);
}

void lifecycle_session_free(struct session *s)
{
    CALL_EACH(session_free, s);
}

void lifecycle_session_inherited(struct session *s)
{
    CALL_EACH(session_inherited, s);
}
