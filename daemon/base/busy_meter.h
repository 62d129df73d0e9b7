/*
 * How busy a thread's device is: in how much of the last second it did work. Work that takes time
 * by itself has a beginning and an end, and several pieces may overlap; other work is told of when
 * it is done. Time counts once. One thread at a time.
 */
#pragma once

#include <stdint.h>

#define BUSY_BINS 11 /* a second, and the bin that time is in */

struct busy_meter {
    uint32_t running; /* pieces that have begun */
    uint64_t counted; /* running != 0: up to when they are in the bins */
    struct {
        uint64_t number; /* which tenth of a second, of all times */
        uint64_t ns;
    } bin[BUSY_BINS];
};

/* Times are of clock_ns(). Those of different pieces of work may be slightly out of order. */

/** A piece of work begins that goes on by itself. */
void busy_meter_begin(struct busy_meter *meter, uint64_t now);
void busy_meter_end(struct busy_meter *meter, uint64_t now);

/** There was work between these moments. */
void busy_meter_add(struct busy_meter *meter, uint64_t from, uint64_t to);

/** 0 to 100. */
uint32_t busy_meter_percent(struct busy_meter *meter, uint64_t now);
