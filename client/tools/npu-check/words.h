/* Numbers and names as reports have them. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "client/tools/npu-check/finding.h"
#include "client/tools/npu-check/symbol.h"
#include "client/tools/npu-check/world.h"

/** With commas between thousands. */
void words_put_number(FILE *f, uint64_t n);
/** "1st", "22nd", "113th". */
void words_put_ordinal(FILE *f, uint64_t n);
/** Of a program: as text_escape() has it, so that no terminal obeys it. */
void words_put_text(FILE *f, const char *s);

/** "process 4711 (name)"; the name if `named`. */
void words_put_process(FILE *f, const struct world *w, uint32_t process, bool named);
/** "stream 2 of process 4711 (name)". */
void words_put_stream(FILE *f, const struct world *w, uint32_t stream, bool named);
/** "file.c:41", "prog+0x1234"; the whole path if `verbose`. */
void words_put_place(FILE *f, const struct frame *frame, bool verbose);

const char *words_object(enum object_what what);
const char *words_objects(enum object_what what);
