/*
 * The heap after a peak: thousands of small objects of clients leave it free and full of holes, and
 * malloc keeps the pages. A moment after so many were freed, they go back to the system. A timer
 * runs once for that: an idle npud never wakes. Control thread.
 */
#pragma once

struct event_base;
struct schedule;

/** 0 or -ENOMEM. */
int heap_trim_init(struct schedule *schedule, struct event_base *base);

/** Afterwards heap_trim_count() does nothing. */
void heap_trim_deinit(void);

/** A crowd has left: its pages go back as soon as there is a turn for it. */
void heap_trim_list(void);

/** An object of the heap was freed that clients may have thousands of. */
void heap_trim_count(void);
