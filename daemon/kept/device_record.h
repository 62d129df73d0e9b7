/*
 * What is kept of a device: what its engine needs beside the records of its streams.
 *
 * Writers: the control thread the kept part; the engine the live part, under its lock, but for
 * `overwritten`.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "daemon/kept/layout.h"

#define DEVICE_SLICE_MAX 4096 /* bytes */

/** Live. */
struct device_kept {
    /* The engine's changes of levels of events, by number: daemon/core/event.c. */
    alignas(64) _Atomic uint64_t last_change;
    _Atomic uint64_t change_session; /* whose event that change was of; stored first */
    /* Any other engine: this change was made, and another engine has changed that level since. */
    _Atomic uint64_t overwritten;
    /* A reduction: the result of the slice that is to be put in its destination. */
    uint64_t slice_bytes;
    uint64_t unused[4];
    alignas(64) unsigned char slice[DEVICE_SLICE_MAX];
};

struct device_record {
    /* kept */
    uint64_t index;
    uint64_t unused[5];
    /* live: struct device_kept */
};

static_assert((CELL_HEAD + sizeof(struct device_record)) % 64 == 0, "cells are aligned to lines");
