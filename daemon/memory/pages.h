/*
 * The pages of an allocation: a memfd that npud and the sessions that hold it share. Mostly one
 * session holds them, the one that has allocated them. Others come by importing what it has
 * exported (share.h), and then they stay until the last holder lets go: an exporter may free the
 * memory, or die.
 *
 * The user of the oldest holder is charged for them: it has made them, or is the first that has
 * kept them since. So a user imports only what it could pay for. For a descriptor each holder is
 * charged: else two users that hand each other pages and free them could have more descriptors than
 * npud has.
 *
 * Streams wait for words of the pages (engine/value.h), and another session that holds them is to
 * write them: sharer.h.
 *
 * Control thread, unless said otherwise.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"
#include "daemon/base/schedule.h"
#include "daemon/core/user.h"
#include "daemon/base/waitlist.h"
#include "daemon/core/batch_job.h"
#include "daemon/core/cause.h"
#include "daemon/memory/sharer.h"

struct backend_memory;
struct device;
struct mem;
struct memory_record;
struct session;
struct memory_exports;

enum mem_kind {
    MEM_DEVICE,
    MEM_HOST,
    MEM_BINARY, /* kernels, of which a device has a copy: no bytes of it have a place */
};

/** Where a binary comes from. */
struct binary_file {
    struct mem *mem; /* pinned memory of the session, which has it at its begin */
    uint64_t size;
    uint32_t magic; /* what its kernels are for; 0: it says so itself */
};

/** Targets of `values` (engine/value.c) have so many bits for the place in them. */
#define PAGES_BITS 39

struct pages {
    struct device *device;
    enum mem_kind kind;
    uint64_t size;
    int fd;                  /* the memory's own, by which clients map it; -1: they cannot */
    _Atomic uint64_t writes; /* changes of it by tasks, if npud cannot read it: value.c */
    struct waitlist values;  /* streams of all holders that wait for words of it: value.h */
    /* For the control thread, which alone changes these, and under the lock of `values`: */
    struct mem *holders; /* the oldest first */
    _Atomic uint32_t n_holders;
    uint64_t changes; /* how often `holders` has changed */
    bool waited; /* all holders' sessions are told that streams may wait: pages_tell_waited() */
    struct sharers sharers;
    struct job look;    /* engine_look_again(), ... */
    uint64_t look_next; /* ... and how far it is */
    struct job ask;     /* engines send it */
    /*
     * Nobody was left who could have written what streams waited for: those fail, in steps, that
     * were on `values` then, and are of another age than those that have come since. 1, the age,
     * and the pid of the last one that has left; 0: it is not so. In the record of the first
     * holder, so that the next npud goes on with it.
     */
    uint64_t deserted;
    uint32_t age;                         /* not 0; under the lock of `values`, like the next */
    bool asked;                           /* ask is sent */
    struct charge charge, charge_table;   /* of the first holder's user */
    struct charge charge_binary;          /* the same: that it is one */
    struct batch_charge charge_batch_job; /* and of its job */

    uint64_t number; /* in all of npud; 0: never exported, so that only one session holds them */
    struct memory_exports *all;
    uint64_t maker; /* id of the session that has allocated them */
    int32_t maker_pid;
    uid_t maker_uid;
    UT_hash_handle hh; /* all->pages, if they have a number */
};

/**
 * How much memory of the device the user could get at this moment. Where npud serves several users,
 * no user gets more than a share of what the others have not ([limits] device_share): so a user
 * that comes later finds some, and one that is alone has nearly all.
 */
uint64_t pages_device_remaining(const struct user *user, const struct device *device);
/**
 * How much the session could get in one piece, by all limits that there are: what programs are told
 * to be free. Of whole pages.
 */
uint64_t pages_obtainable(const struct session *session, const struct device *device);

/**
 * Pages of a device, or of host memory, charged to the session; or, as if it were some, a binary:
 * file is what it is made of then, else NULL. size: of whole pages. *memory: what the session works
 * with; it is given back after pages_leave().
 */
enum cause pages_new(struct session *session, struct device *device, enum mem_kind kind,
                     uint64_t size, const struct binary_file *file, struct pages **pages,
                     struct backend_memory **memory);

/** The function of a binary, as the session works with it, has this number from now on. */
enum cause pages_name_function(struct session *session, struct backend_memory *memory,
                               const struct pages *pages, const char *name, uint32_t number);

/** May the session hold them, too? */
enum cause pages_check(struct pages *pages, struct session *session);

/** The session of mem holds them, too. */
enum cause pages_join(struct pages *pages, struct mem *mem);
/** The same while npud restores. False: no memory. */
bool pages_join_again(struct pages *pages, struct mem *mem, const struct memory_record *record);

/**
 * It does not any more: none of its engines knows the allocation. With the last holder the pages
 * go.
 */
void pages_leave(struct pages *pages, struct mem *mem);
/**
 * The allocation that has joined could not be made: the same, but nobody has left. What streams of
 * other holders wait for is as it was.
 */
void pages_unjoin(struct pages *pages, struct mem *mem);

/**
 * Their maker expects others, or means to go on alone: it has exported them, changed an export, or
 * closed it.
 */
void pages_expect(struct pages *pages);

/**
 * The program of the session of mem has finalized; over: and what its streams had to do is done.
 * Streams of others that it was to let go are told.
 */
void pages_end_use(struct pages *pages, struct mem *mem, bool over);
/** The program uses npud again. */
void pages_begin_use_again(struct mem *mem);

/**
 * A stream is on `values`, or was: from now on, processes that write the pages by themselves tell
 * npud (proto/shm/doorbell.h, waited). Engine, under its lock, before it looks at the word for the
 * last time.
 */
void pages_tell_waited(struct pages *pages);
/** A process has told it. If no stream waits any more, it is the last time. */
void pages_tell_idle(struct pages *pages);

/**
 * Nobody is left who could write words for which streams wait: those of another age than `age`
 * fail. pid: of the last one that could have.
 */
void pages_desert(struct pages *pages, int32_t pid);
/** They are told. */
void pages_end_desertion(struct pages *pages);

static inline bool pages_are_deserted(const struct pages *pages)
{
    return pages->deserted != 0;
}

/** The pid. */
static inline int32_t pages_deserter(const struct pages *pages)
{
    return (int32_t)(pages->deserted >> 32);
}

/** They get their number, if they have none. False: no memory. */
bool pages_enlist(struct pages *pages, struct memory_exports *all);

/** The session that has allocated them, if it still holds them; or NULL. */
struct session *pages_maker(const struct pages *pages);

/**
 * The pages that the record of an allocation is of: those that another holder has brought back, or
 * new ones. *memory: as of pages_new(). NULL: they cannot be.
 */
struct pages *pages_restore(struct session *session, struct device *device,
                            const struct memory_record *record, struct backend_memory **memory);
