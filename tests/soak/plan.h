/*
 * What is known while the list of a round is made. See round.h for what it is about.
 */
#pragma once

#include "tests/soak/round.h"

enum record_state {
    RECORD_NONE, /* there never was one */
    RECORD_LIVE, /* of this round: see its clock */
    RECORD_DONE,
    RECORD_LOST,  /* not executed when its process died, or its stream was aborted */
    RECORD_MAYBE, /* its process died, and how far it was is unknown */
};

struct record {
    bool aborted; /* its stream is going to be aborted */
    uint8_t state;
    uint8_t stream; /* of all */
    /* of a process that will die in this round: nothing follows from having waited for it */
    bool weak;
    bool tainted; /* it comes after a wait for such a one */
    uint16_t pos, op;
    uint64_t mask;
    uint16_t clock[STREAMS];
};

/* The latest record of an event. */
struct latest {
    uint16_t record; /* 0: of an earlier round, or none */
    uint8_t old;     /* then: its state */
};

struct plain {
    bool live;
    bool asleep; /* a second thread sleeps on it: not to be recorded */
    uint8_t kind;
    struct latest latest;
};

struct shared {
    bool exists;
    uint8_t holders, exporters; /* processes; without exporters it cannot be opened any more */
    uint8_t asleep;             /* threads */
    struct latest latest;
    uint16_t writer;              /* latest record or first export in this round */
    uint16_t exported[PROCESSES]; /* in this round */
    /* latest call of each process that must come before the next of these */
    uint16_t reader[PROCESSES];
};

struct stream_plan {
    uint16_t clock[STREAMS];
    uint64_t mask; /* gates that it has waited for, by itself or through others */
    uint16_t last; /* operation */
    uint16_t done; /* position that its process has synchronised it up to */
    bool tainted;  /* it has waited for a record of the victim */
    bool stamped;
    unsigned errors;
    struct {
        int32_t code;    /* or 0: of ... */
        uint16_t record; /* a wait for this record */
    } error[ERRORS_MAX];
};

enum gate_state { GATE_UNUSED, GATE_CLOSED, GATE_OPENED };

struct gate_plan {
    uint8_t state;
    uint16_t op;
    uint16_t observer[PROCESSES]; /* latest call of each process that found it closed */
};

struct cell_plan {
    uint64_t base, step;
    uint16_t write_pos, write_op;
    int8_t writer; /* own stream; -1: the host, or an earlier round */
    uint16_t read_pos[OWN];
};

/* The latest plan_timed() of a device. */
struct timed {
    bool valid;
    int32_t us;
};

/* A notify. */
struct latch_plan {
    uint16_t wait_pos; /* of the latest wait of this round; 0: none */
    int8_t waiter;     /* its stream */
};

struct process_plan {
    bool alive;
    uint16_t clock[STREAMS]; /* of its host thread */
    uint16_t ops;
    uint16_t last_look; /* latest call that found something not ready */
    uint8_t sleeping;   /* variable; NO_VAR: no thread sleeps */
    uint16_t sleep_op;
    unsigned stamps; /* used */
    struct plain var[VAR_SHARED];
    struct cell_plan cell[CELLS];
    struct gate_plan gate[GATES];
    struct timed timed[DEVICES];
    struct latch_plan latch[LATCHES];
    bool exports;      /* its notifies */
    uint16_t exported; /* when it did so, in this round */
    uint8_t imported;  /* from these processes */
};

struct plan {
    struct round *round;
    struct process_plan process[PROCESSES];
    struct stream_plan stream[STREAMS];
    struct shared shared[SHARED];
    struct record record[OPS_MAX];
    unsigned records;
    uint64_t closed;                 /* gates */
    uint16_t seen[OPS_MAX][STREAMS]; /* clock of the host thread after each operation */
    int victim;                      /* of this round; -1: none */
    int doomed;      /* stream of all that is going to be aborted, at once; -1: none */
    bool cut;        /* records have been lost in this round */
    bool dead;       /* and so it is */
    bool wild_death; /* ever: wild records may be lost */
    uint64_t tag;    /* contents, never the same */
};

#define GATE_BIT(p, g) (UINT64_C(1) << ((p)*GATES + (g)))

/** Before the first round. */
void plan_init(struct plan *plan);
/** Begin a round, in which a process dies or (-1) none. */
void plan_begin(struct plan *plan, struct round *round, int victim);
/** All streams have been synchronised, and a new process has taken the place of the victim. */
void plan_end(struct plan *plan);

/*
 * --- operations. Those that would not make sense, or whose outcome the plan could not know, return
 * 0; the others their number. ---
 */

uint16_t plan_create(struct plan *plan, unsigned p, unsigned var, unsigned kind);
uint16_t plan_destroy(struct plan *plan, unsigned p, unsigned var);
uint16_t plan_open(struct plan *plan, unsigned p, unsigned shared);
/**
 * Once more, by a process that has opened it: the same 64 bytes, good for as long as one of its
 * exporters lives.
 */
uint16_t plan_export(struct plan *plan, unsigned p, unsigned shared);
uint16_t plan_record(struct plan *plan, unsigned p, unsigned var, unsigned stream);
uint16_t plan_wait(struct plan *plan, unsigned p, unsigned var, unsigned stream);
uint16_t plan_query(struct plan *plan, unsigned p, unsigned var, unsigned variant);
uint16_t plan_sync_event(struct plan *plan, unsigned p, unsigned var, bool briefly);
uint16_t plan_sleep(struct plan *plan, unsigned p, unsigned var);
/** Look at the second thread: still asleep, or back. */
uint16_t plan_look(struct plan *plan, unsigned p);
uint16_t plan_delay(struct plan *plan, unsigned p, unsigned stream, int32_t us, int32_t result);
uint16_t plan_burst(struct plan *plan, unsigned p, unsigned stream);
/**
 * A record and a wait for it in the other stream of the device, which lowers it again; early: the
 * wait is submitted first.
 */
uint16_t plan_level(struct plan *plan, unsigned p, unsigned device, unsigned from, bool early);
uint16_t plan_gate(struct plan *plan, unsigned p, unsigned gate, unsigned stream);
uint16_t plan_open_gate(struct plan *plan, unsigned p, unsigned gate);
/** Every process gets the notifies of every other; one in so many tries before it may. */
void plan_share_latches(struct plan *plan, unsigned refused_of);
/**
 * Process q records a notify of p, and a stream of p waits for that; early: the wait is submitted
 * first.
 */
uint16_t plan_latch(struct plan *plan, unsigned p, unsigned latch, unsigned q, unsigned from,
                    unsigned to, bool early);
uint16_t plan_copy(struct plan *plan, unsigned p, unsigned stream, unsigned dst, unsigned src);
/** A copy that fails because its memory has been freed. Only where the stream stands at a gate. */
uint16_t plan_copy_freed(struct plan *plan, unsigned p, unsigned stream);
uint16_t plan_set(struct plan *plan, unsigned p, unsigned stream, unsigned cell, uint8_t value);
uint16_t plan_fill(struct plan *plan, unsigned p, unsigned cell);
uint16_t plan_check(struct plan *plan, unsigned p, unsigned cell);
/** Time, delay, time. */
uint16_t plan_timed(struct plan *plan, unsigned p, unsigned stream, int32_t us);
uint16_t plan_elapsed(struct plan *plan, unsigned p, unsigned device);
/**
 * A callback that does nothing but come in order; or one that compares a cell, or writes a pinned
 * one, and blocks.
 */
uint16_t plan_callback(struct plan *plan, unsigned p, unsigned stream, bool block);
uint16_t plan_callback_on(struct plan *plan, unsigned p, unsigned stream, unsigned cell,
                          bool write);
/** The wrong function for the stream. */
uint16_t plan_refused_callback(struct plan *plan, unsigned p, unsigned stream);
uint16_t plan_sync_stream(struct plan *plan, unsigned p, unsigned stream, bool briefly);
uint16_t plan_sync_device(struct plan *plan, unsigned p, unsigned device);
uint16_t plan_query_stream(struct plan *plan, unsigned p, unsigned stream);
/**
 * Stop the stream at a gate, record an event, and a shared one (or NO_VAR), behind that, let others
 * wait for them, and abort it.
 */
uint16_t plan_abort(struct plan *plan, unsigned p, unsigned stream, unsigned gate, unsigned var,
                    unsigned shared);
uint16_t plan_renew_stream(struct plan *plan, unsigned p, unsigned stream);
uint16_t plan_death(struct plan *plan, bool wild, int32_t after);
/** What all processes do at the end of a round. */
void plan_finish(struct plan *plan);

/**
 * Let stream `to` of process q come after all that stream `from` of process p has been given, by a
 * variable that both have. With time stamps at both ends where there are some left.
 */
uint16_t plan_edge(struct plan *plan, unsigned p, unsigned from, unsigned pvar, unsigned q,
                   unsigned to, unsigned qvar);

bool plan_blocked(const struct plan *plan, unsigned p, unsigned stream);
bool plan_has(const struct plan *plan, unsigned p, unsigned var);

/** One round from its seed. */
void generate(struct plan *plan, struct round *round, uint64_t seed, uint32_t number, bool kill);
