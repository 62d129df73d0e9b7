/*
 * Which processes may import what has been exported: a notify, or memory. Either any that has the
 * key, within [ipc] scope, or those whose pids are on the list, of any user.
 *
 * A member of the object that is exported. Its list has a record of its own, which names the object
 * by its number: of a kind that is for such lists alone. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/core/cause.h"
#include "daemon/kept/importers_record.h"
#include "daemon/kept/kept.h"

#define IMPORTERS_MAX 256u /* on one list */

struct session;

/** A process that may import. */
struct importer {
    int32_t pid;
    /*
     * No other process has it (importers.c). 0: there was none with that pid, and the first to
     * import is the one.
     */
    uint64_t process;
};

/** All zero: a list without processes. */
struct importers {
    bool any_pid;    /* no list: any process with the key may */
    uid_t uid;       /* whose the object is */
    uint64_t object; /* its number */
    struct importer *list;
    uint32_t n;
    uint32_t room; /* of the record */
    struct kept kept;
};

/** Why a process may not import. */
enum importers_answer {
    IMPORTERS_MAY,
    IMPORTERS_NOT_LISTED,
    IMPORTERS_OTHER_USER,
};

/** Free the list and its record. Zeroed ones, too. */
void importers_deinit(struct importers *importers);

/**
 * Put pids on the list, or ask anew which process has one that is there. At most
 * NOTIFY_PIDS_REQUEST, because each costs system calls. kind: of the record of the list.
 */
enum cause importers_allow(struct importers *importers, enum kept_kind kind, const int32_t *pids,
                           size_t n);

/**
 * May the process of the session import? It lives, or npud learns in a moment that it does not: no
 * other process has its pid.
 */
enum importers_answer importers_ask(struct importers *importers, const struct session *session);

/** The list is there again. False: the record is damaged, or no memory. */
bool importers_restore(struct importers *importers, struct kept_cell *cell);
