/*
 * The members of a record as a list, for kinds whose record is a copy of members of an object:
 *
 *     #define OPEN_MEMBERS(DO)                                                            \
 *         DO##FIND(session, session, id, session_by_id(r->session));                      \
 *         DO##DERIVED(slot, o->slot.number);                                              \
 *         DO##SAME(state, state);
 *
 *     RECORD(static, ipc_open, IPC_OPEN, struct ipc_open, kept, struct ipc_open_record,
 *            OPEN_MEMBERS)
 *
 * makes write_ipc_open(), which kept_commit() calls; ipc_open_keep(), which makes the record of a
 * new object; and ipc_open_back(), which a restorer calls when it has made the object: it reads the
 * members and binds the record. The three see the object as `o`, the record as `r`, and
 * ipc_open_back() also `server`.
 *
 * The first argument of a word is the member of the record:
 *
 *   SAME(in_record, member)                 equal but for its width: an integer, a bool, an enum
 *   BYTES(in_record, member)                an array or a structure, of the same size
 *   FD(in_record, member)                   the key of a descriptor, which must be there
 *   FIND(in_record, member, id, expression) a pointer to a named object; the expression finds it
 *   DERIVED(in_record, expression)          written only: the restorer does the rest
 *
 * There are no other words. A member that is right only together with another one, a descriptor or
 * an object that may be gone, and what a join sets (list links, charges, parts of survivors) are
 * DERIVED or not in the list, and the restorer has them in lines of its own.
 *
 * Members are read in the order of the list: the expression of a FIND may use members above it.
 * For a record that ends in a live part, RECORD_LIVE() writes up to that part, and points the
 * object's member of the same name at it.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"

#define WRITE_SAME(in_record, member)            r->in_record = o->member
#define WRITE_BYTES(in_record, member)           RECORD_COPY(r->in_record, o->member)
#define WRITE_FD(in_record, member)              r->in_record = kept_key(o->member)
#define WRITE_FIND(in_record, member, id, found) r->in_record = o->member->id
#define WRITE_DERIVED(in_record, value)          r->in_record = (value)

#define BACK_SAME(in_record, member)            o->member = (__typeof__(o->member))r->in_record
#define BACK_BYTES(in_record, member)           RECORD_COPY(o->member, r->in_record)
#define BACK_FD(in_record, member)              NEED((o->member = kept_fd_take(r->in_record)) >= 0)
#define BACK_FIND(in_record, member, id, found) NEED((o->member = (found)) != NULL)
#define BACK_DERIVED(in_record, value)

#define RECORD_COPY(to, from)                                                                      \
    do {                                                                                           \
        static_assert(sizeof(to) == sizeof(from), "as it was given out");                          \
        memcpy(&(to), &(from), sizeof(to));                                                        \
    } while (0)

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return false;                                                                          \
    } while (0)

/* linkage: of name_keep() and name_back(), `static` or empty. */
#define RECORD(linkage, name, KIND, Object, kept_member, Record, MEMBERS)                          \
    RECORD_OF(linkage, name, KIND, Object, kept_member, Record, MEMBERS, sizeof(Record), (void)o)
#define RECORD_LIVE(linkage, name, KIND, Object, kept_member, Record, MEMBERS, live_part)          \
    RECORD_OF(linkage, name, KIND, Object, kept_member, Record, MEMBERS,                           \
              offsetof(Record, live_part),                                                         \
              o->live_part = &((Record *)kept_record(&o->kept_member))->live_part)

#define RECORD_OF(linkage, name, KIND, Object, kept_member, Record, MEMBERS, bytes, use_live)      \
    static size_t write_##name(const struct kept *kept, void *record)                              \
    {                                                                                              \
        const Object *o = (const Object *)((const char *)kept - offsetof(Object, kept_member));    \
        Record *r = record;                                                                        \
                                                                                                   \
        memset(r, 0, bytes);                                                                       \
        MEMBERS(WRITE_)                                                                            \
        return bytes;                                                                              \
    }                                                                                              \
                                                                                                   \
    linkage bool name##_keep(Object *o)                                                            \
    {                                                                                              \
        if (!kept_make(&o->kept_member, KEPT_##KIND, sizeof(Record), write_##name))                \
            return false;                                                                          \
        use_live;                                                                                  \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    static bool name##_back(struct server *server, Object *o, struct kept_cell *cell,              \
                            const Record *r)                                                       \
    {                                                                                              \
        (void)server;                                                                              \
        MEMBERS(BACK_)                                                                             \
        if (!kept_bind(&o->kept_member, cell, sizeof(*r), write_##name))                           \
            return false;                                                                          \
        use_live;                                                                                  \
        return true;                                                                               \
    }
