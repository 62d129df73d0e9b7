/* What npud offers beyond the common interface. All names begin with aclnpud. */
#ifndef ACL_ACL_NPUD_H
#define ACL_ACL_NPUD_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A task that stands for work: it occupies the stream for so many microseconds and then succeeds,
 * when result is 0, or fails with result, as a kernel would. Asynchronous; the failure appears at
 * the next synchronise. stream NULL is the default stream of the current context.
 * Errors: more than 3,600,000,000 microseconds (an hour), or a result that is neither 0 nor a
 * documented error code, 107000; no context 107002; stream of another context 107003; stale or
 * wrong stream handle 107017.
 */
ACL_FUNC_VISIBILITY aclError aclnpudLaunchDelay(uint64_t microseconds, aclError result,
                                                aclrtStream stream);

/*
 * aclrtLaunchCallback for who holds something for userData, bindings of other languages for one: when fn is never going to run, because the stream
 * or its subscription ended first, drop(userData) is called in its place, once, in the thread that ended it. drop NULL: nothing is
 * called. When this function returns an error, neither is called.
 */
ACL_FUNC_VISIBILITY aclError aclnpudLaunchCallbackWithDrop(aclrtCallback fn, aclrtCallback drop,
                                                           void *userData,
                                                           aclrtCallbackBlockType blockType,
                                                           aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
