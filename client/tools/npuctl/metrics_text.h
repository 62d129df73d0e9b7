/*
 * The text format of before OpenMetrics ("Prometheus text", version 0.0.4), which scrapers and
 * tools read that know no other. The samples are the same, and have the same names.
 */
#pragma once

#include <stdio.h>

/** Prints OpenMetrics text, as metrics.c makes it, in that format. The text is cut into lines. */
void metrics_print_as_text(FILE *f, char *openmetrics);
