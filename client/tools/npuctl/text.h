/* Text of programs, made fit for a terminal and for JSON. */
#pragma once

#include <stdbool.h>

/**
 * What a client sent, fit for a terminal; *width: its columns there. With one_word without blanks,
 * so that it cannot look like more columns than one: a blank between two words is a colon
 * ("python3:train.py"), because that is read in every locale, by people and by awk, and no-break
 * spaces are columns for some scripts. NULL: no memory. The caller frees it.
 */
char *text_escape(const char *s, bool one_word, int *width);

/**
 * The same for JSON: valid UTF-8, in every locale. cJSON escapes what JSON forbids, but copies
 * broken UTF-8, DEL and the control characters above ASCII, which some terminals obey.
 */
char *text_clean(const char *s);
