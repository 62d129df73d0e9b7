/* The ways in which a program ends tasks of a stream that have not been executed. */
#pragma once

#include "acl/acl.h"
#include "tests/common/harness.h"

enum { STREAM_ENDS = 3 };

/** End all tasks of the stream of device 0 in this way. The stream may be another one then. */
static inline void stream_end(unsigned way, aclrtStream *stream)
{
    switch (way) {
    case 0:
        OK(aclrtStreamAbort(*stream));
        break;
    case 1:
        OK(aclrtDeviceTaskAbort(0, 0));
        break;
    default:
        OK(aclrtDestroyStreamForce(*stream));
        OK(aclrtCreateStream(stream));
    }
}
