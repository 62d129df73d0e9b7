/*
 * The search for pending records of an IPC event in the rings of their openers.
 *
 * Which records are pending stands in a page that every opener can write. A pending record holds up
 * all that wait for it, and the one that needs its place in the window. npud alone can tell which
 * ones are real: an opener stores its record in the ring of one of its streams, at once after it
 * has taken the number, and it stays there until an engine has completed it in the page.
 *
 * A client that has waited for long for a record asks for a search. It goes through the rings of
 * all openers that have pending records. A record that two searches have missed, [ipc] submit_ms
 * apart, fails: its opener was killed or stopped between taking the number and submitting, or a
 * hostile opener has forged it. A record that is in a ring is never touched, however long it takes.
 *
 * Control thread. Rings are as long as their owners make them: the search is a job, and the user
 * of the session that asks for it pays for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ipc_event;
struct session;

/**
 * Search for what is pending now; when a search is under way, once more after it. number: a record
 * that the asker waits for. Without memory for it, there is no search.
 */
void ipc_search_begin(struct ipc_event *event, struct session *asker, uint64_t number);

/** Is the record pending, and has the last search missed it? It may have been submitted since. */
bool ipc_search_misses(const struct ipc_event *event, uint64_t number);
