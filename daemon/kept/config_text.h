/*
 * The text of the configuration that serves, with the keeper. A next server whose file is wrong
 * (it is being edited, say) takes this one: what is wrong in a file never ends sessions.
 *
 * The text and not the values: a npud of another version reads it as it reads a file.
 *
 * Control thread.
 */
#pragma once

#include <stddef.h>

struct config;

/** This configuration serves from here on. Without a keeper nothing happens. */
void config_text_keep(const struct config *config);

/** The text that was kept last, with a zero byte behind its *size bytes; the caller's. NULL: the
 * keeper has none, after a line in the log if it should. */
char *config_text_fetch(size_t *size);
