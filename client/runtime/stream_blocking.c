/* Launches that return when what they launched is done, to say which one failed. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

/* Streams on which that means nothing. */
#define FLAGS_NEVER (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool by_environment;

static void read_environment(void)
{
    const char *value = getenv("ASCEND_RT_LAUNCH_BLOCKING");

    by_environment = value && strcmp(value, "1") == 0;
}

bool stream_launch_blocks(struct stream *s)
{
    if (s->launch_blocking == ACL_STREAM_LAUNCH_BLOCKING_MODE_NON_BLOCKING || s->nonblocking > 0)
        return false;
    if (s->launch_blocking == ACL_STREAM_LAUNCH_BLOCKING_MODE_CTRL_BY_ENV) {
        pthread_once(&once, read_environment);
        if (!by_environment)
            return false;
    }
    return !(s->flags & FLAGS_NEVER) && !s->model && !s->update && !stream_captures(s);
}

int stream_end_launch(const char *function, aclrtStream handle)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, function, handle);
    bool waits = stream_launch_blocks(s);

    stream_unlock(s);
    return waits ? stream_synchronize(function, handle, -1) : 0;
}

static int check_flag(const char *function, uint64_t flag)
{
    return flag == 0 ? 0
                     : error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: flag is 0x%llx, must be 0",
                                 function, (unsigned long long)flag);
}

aclError aclrtNonBlockingLaunchBegin(aclrtStream stream, uint64_t flag)
{
    CALL_SCOPE;
    struct stream *s;

    RETURN_IF_ERROR(check_flag(__func__, flag));
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    s->nonblocking++;
    stream_unlock(s);
    return 0;
}

/* The stream is locked. */
static int end_locked(struct stream *s, bool *waits)
{
    if (s->nonblocking == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtNonBlockingLaunchEnd: aclrtNonBlockingLaunchBegin was not called");
    s->nonblocking--;
    *waits = stream_launch_blocks(s);
    return 0;
}

aclError aclrtNonBlockingLaunchEnd(aclrtStream stream, uint64_t flag)
{
    CALL_SCOPE;
    struct stream *s;
    bool waits = false;
    int error;

    RETURN_IF_ERROR(check_flag(__func__, flag));
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = end_locked(s, &waits);
    stream_unlock(s);
    return waits ? stream_synchronize(__func__, stream, -1) : error;
}
