/*
 * The processes of a model run: each does what it is told by the driver with the ACL library, and
 * reports what it saw.
 */
#pragma once

#include <stdint.h>

#include "acl/acl.h"
#include "tests/model/model.h"

#define BATCH 16 /* orders in a packet, and reports in the answer */

enum order_kind {
    ORDER_BEGIN,  /* a new program: count from zero */
    ORDER_STEP,   /* do the step; with settle set, then wait as below */
    ORDER_SETTLE, /* wait until streams are where the view says */
};

struct order {
    uint8_t kind;
    uint8_t settle;
    uint8_t look;     /* and then ask for the status of all events */
    uint8_t blocks;   /* the step is a synchronise that will run out of time */
    int32_t guard_ms; /* what should come to an end gets so long */
    struct step step;
    struct view view;           /* expected afterwards */
    aclrtIpcEventHandle handle; /* to open */
};

struct seen {
    int32_t code;
    int32_t value;
    float ms;
};

enum trouble {
    TROUBLE_NONE,
    TROUBLE_STUCK,      /* stream `where` did not come as far as it should */
    TROUBLE_AHEAD,      /* stream `where` went on where it had to wait */
    TROUBLE_STATUS,     /* aclrtStreamQuery says otherwise than the marks */
    TROUBLE_ASLEEP,     /* the second thread did not return */
    TROUBLE_AWAKE,      /* it returned too early */
    TROUBLE_SLEEP_CODE, /* it returned an error */
};

/** Of one order. With trouble the rest of the batch is not done. */
struct report {
    uint8_t n;
    uint8_t trouble;
    uint8_t where;
    int32_t code;
    struct seen answer[ANSWERS];
    struct seen status[VARS];   /* with look, where there is an event */
    aclrtIpcEventHandle handle; /* of an export */
};

/** Serve orders from fd until its other end is closed. Returns the exit status of the process. */
int worker_run(unsigned process, int fd);
