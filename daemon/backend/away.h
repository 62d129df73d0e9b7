/*
 * Between the files of the backends "acl" and "cuda": what they know of sessions and memory, and
 * what away_work.c does of the table of functions (core/backend.h has what each of them is).
 */
#pragma once

#include "daemon/backend/executors.h"
#include "daemon/backend/mapped.h"
#include "daemon/core/backend.h"

/** Memory as sessions with the same executor know it. */
struct backend_memory {
    uint32_t holders; /* names of it that are given back */
    uint32_t device;
    uint64_t size;
    uint64_t handle; /* of the executor; 0: it has it not */
    uint64_t after;  /* pages: the message by which the executor has got them */
    uint64_t address;
    struct executor *executor;     /* NULL: of pages, before a session uses a device */
    struct mapped *pages;          /* of the host; NULL: of the device */
    bool binary;                   /* of the device: kernels, and no bytes */
    struct backend_memory *origin; /* where it was imported from: its executor has the bytes */
    struct backend_space *space;   /* of pages: whose list they are on */
    struct backend_memory *prev, *next;
};

/** A session, here. */
struct backend_space {
    struct backend_space **owner; /* backend_told() */
    struct executor *executor;    /* NULL: none so far */
    struct executor *before;      /* in its place, until it ended: streams may have tickets of it */
    struct backend_client client;
    struct making *making;       /* what it has asked for; NULL: nothing */
    struct backend_memory *host; /* pages that its executor has */
    bool waits;                  /* for its executor to use a device */
    bool begins;   /* the same, until it has asked again: one that ends meanwhile does not start */
    uint32_t asks; /* devices for which a request waits, and ... */
    uint32_t refused;  /* ... those of them that the library did not open */
    char refusal[128]; /* what the library has said last of what it has refused */
    struct backend_space *prev, *next;
};

static inline bool away_has_executor(const struct backend_space *space)
{
    return space->executor && space->executor->state != EXECUTOR_ENDED;
}

/** With one holder, and nothing else. NULL: no memory. */
struct backend_memory *away_memory_make(uint32_t device, uint64_t size);
void away_memory_free(void *state, struct backend_memory *m, const struct user *user);

int away_binary_new(void *state, struct backend_space *space, uint32_t device,
                    struct backend_memory *file, uint64_t size, uint32_t magic,
                    struct backend_memory **binary);
int away_function_new(void *state, struct backend_space *space, struct backend_memory *binary,
                      const char *name, uint32_t number);
const char *away_refusal(const struct backend_space *space);

enum work_state away_step(void *state, uint32_t device, struct work *w, uint64_t now,
                          uint64_t *deadline, int32_t *result);
void away_poll(void *state, uint32_t device, void (*over)(struct work *work));
bool away_sleep(void *state, uint32_t device, bool asleep);
unsigned away_ahead(void *state, const struct work *works, unsigned n);
void away_give(void *state, uint32_t device, const struct work *works, unsigned n);
bool away_resume(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                 uint64_t last);
bool away_gave(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
               const struct work *work);
void away_forget(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                 bool all);
bool away_is_over(void *state, struct backend_space *space, uint64_t ticket);
int away_await_over(void *state, struct backend_space *space, uint32_t device, uint64_t ticket);
bool away_word_read(struct work_place at, uint64_t *value);
bool away_word_write(struct work_place at, uint64_t value);
bool away_words_read(struct work_place at, uint64_t *to, unsigned words);
void away_slice_put(struct work_place at, const void *slice, uint64_t size);
