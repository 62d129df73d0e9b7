/*
 * Places of the program as its programmer knows them: functions, files and lines, from what the
 * compiler has left in the files of the process (libdw), or names of the files alone.
 */
#pragma once

#include "client/tools/npu-check/world.h"

struct frame {
    const char *function; /* NULL: unknown */
    const char *file;     /* of the source, with its directory where that is known; NULL: unknown */
    uint32_t line;        /* 0: unknown */
    const char *object;   /* the mapped file, or NULL */
    uint64_t offset;      /* in it */
};

/** Functions that were inlined are frames, too. */
struct place_frames {
    const char *call;     /* the public function of the library: an identifier; or NULL */
    struct frame *frames; /* of the program behind it, innermost first */
    size_t n;
};

struct symbols;

/** *w stays as it is while the result is used. Never NULL. Nothing is ever downloaded. */
struct symbols *symbols_make(const struct world *w);

/** Of world->places; of WORLD_NONE or a number beyond: nothing. Valid until symbols_free(). */
const struct place_frames *symbols_find(struct symbols *s, uint32_t place);

void symbols_free(struct symbols *s);

/** The last part of a path. */
const char *path_name(const char *path);
