#include "client/runtime/importer_pids.h"

#include "acl/acl.h"
#include "client/core/error.h"
#include "proto/wire/packet.h"

#define PIDS_MAX 256u /* that npud keeps on one list */

static int check_pids(const char *function, const int32_t *pids, size_t n)
{
    if (n > PIDS_MAX)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: %zu pids: a list of importers has at most %u processes", function, n,
                         PIDS_MAX);
    for (size_t i = 0; i < n; i++)
        if (pids[i] <= 0)
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a pid is not positive: %d", function,
                             (int)pids[i]);
    return 0;
}

int importer_pids_send(const char *function, const int32_t *pids, size_t n,
                       importer_pids_send_fn *send, void *context)
{
    RETURN_IF_ERROR(check_pids(function, pids, n));
    for (size_t i = 0; i < n; i += NOTIFY_PIDS_REQUEST) {
        size_t most = n - i < NOTIFY_PIDS_REQUEST ? n - i : NOTIFY_PIDS_REQUEST;

        /* Messages have pointers to what may be changed; nothing changes it. */
        RETURN_IF_ERROR(send(context, (int32_t *)pids + i, most));
    }
    return 0;
}
