/*
 * A record of an operator that has run, as a pipe delivers it to a program that has subscribed to a
 * model. The program reads it by the functions aclprofGetOp*, and knows its size alone. It comes
 * back from the program's buffer, of any alignment: nothing in it is trusted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_prof.h"

#define OPERATOR_RECORD_BYTES 512 /* at most PIPE_BUF: records are never mixed */
#define OPERATOR_RECORD_MAGIC UINT64_C(0x31706f6475706e) /* "npudop1" */

struct __attribute__((packed)) operator_record {
    uint64_t magic;
    uint64_t begin_us, end_us; /* 0: times were not asked for */
    uint32_t model;
    char thread[12]; /* that has run it: its id, as text */
    char type[ACL_PROF_MAX_OP_TYPE_LEN];
    char name[ACL_PROF_MAX_OP_NAME_LEN];
    unsigned char
        unused[OPERATOR_RECORD_BYTES - 40 - ACL_PROF_MAX_OP_TYPE_LEN - ACL_PROF_MAX_OP_NAME_LEN];
};
_Static_assert(sizeof(struct operator_record) == OPERATOR_RECORD_BYTES, "a record has one size");
