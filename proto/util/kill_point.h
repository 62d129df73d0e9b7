/*
 * Numbered places in what a client does to shared memory and to its socket: between every two
 * stores of submission, record, wait, and at each step of a request. In a test build of the library
 * (NPUD_KILL_POINTS) a test counts how often an operation passes each of them, and then ends the
 * process there with SIGKILL, one place after the other (tests/kill). Nothing in every other build.
 */
#pragma once

#define KILL_POINTS(X)                                                                             \
    X(CONNECTED, "connected, Hello not sent")                                                      \
    X(REQUEST_BEGIN, "request made, not sent")                                                     \
    X(REQUEST_SENT, "request sent, reply not read")                                                \
    X(REPLY_READ, "reply read, its descriptor not taken")                                          \
    X(SEGMENT_MAPPED, "memory mapped, not written down")                                           \
    X(SUBMIT_BEGIN, "room found, task not written")                                                \
    X(SUBMIT_WRITTEN, "task written, tail not moved")                                              \
    X(SUBMIT_TAIL, "tail moved, task not published")                                               \
    X(SUBMIT_PUBLISHED, "task published, doorbell not looked at")                                  \
    X(BELL_WORD, "doorbell bit set, summary not")                                                  \
    X(BELL_SUMMARY, "summary set, eventfd not written")                                            \
    X(BELL_RUNG, "eventfd written")                                                                \
    X(LEVEL_RAISED, "level raised, waiters not looked for")                                        \
    X(LEVEL_LOWERED, "level lowered")                                                              \
    X(RECORD_HELP, "newest record not in its slot")                                                \
    X(RECORD_HELPED, "newest record in its slot, next not taken")                                  \
    X(RECORD_TAKEN, "number taken, nothing queued")                                                \
    X(RECORD_QUEUED, "record queued, use not noted")                                               \
    X(WAIT_CAPTURED, "record captured, wait not queued")                                           \
    X(WAIT_QUEUED, "wait queued, use not noted")                                                   \
    X(SLEEP_SLOT, "wait slot half written")                                                        \
    X(SLEEP_LISTED, "wait slot written, wake-up not armed")                                        \
    X(POSITION_ARMED, "wake-up at a position armed, done not looked at")                           \
    X(RECORD_ARMED, "waiter bit set, not asleep")                                                  \
    X(SLEEP_BEGIN, "about to sleep")                                                               \
    X(SLEEP_END, "woken, condition not looked at")                                                 \
    X(SLEEP_CLEAR, "awake, wait slot not cleared")                                                 \
    X(SLEEP_CLEARED, "wait slot cleared")                                                          \
    X(CALLBACK_LISTED, "callback in the list, task not submitted")                                 \
    X(CALLBACK_WORD_ARMED, "asleep for npud, callbacks not looked at")                             \
    X(CALLBACK_TAKEN, "callback taken, not run")                                                   \
    X(CALLBACK_RUN, "callback has returned, npud not told")                                        \
    X(CALLBACK_DONE, "callback done, doorbell not rung")                                           \
    X(CALLBACK_DROPPED, "callbacks dropped, npud not told")                                        \
    X(KERNEL_BEGINS, "kernel taken, not run")                                                      \
    X(KERNEL_OVER, "kernel has run, npud not told")                                                \
    X(MEMORY_WRITTEN, "memory written by the host, npud not told")                                 \
    X(EXCEPTION_READ, "exception copied, its place not given back")                                \
    X(EXCEPTION_TAKEN, "its place given back, the engine not told")                                \
    X(ABORT_LOCKED, "submitters out, abort not asked for")                                         \
    X(ABORT_HELD, "stream held, waiters not told")                                                 \
    X(ABORT_TOLD, "waiters told, nothing discarded")                                               \
    X(ABORT_OVER, "discarded, callbacks not let go")                                               \
    X(MBUF_HINT_TAKEN, "hint of a free slot taken, slot not claimed")                              \
    X(MBUF_CLAIMED, "slot claimed, not prepared")                                                  \
    X(MBUF_OWNED, "buffer has its data, which counts no reference")                                \
    X(MBUF_COUNTED, "reference counted, buffer not prepared")                                      \
    X(MBUF_PREPARED, "buffer prepared, not held")                                                  \
    X(MBUF_HOLDS, "buffer held, its handle not given out")                                         \
    X(MBUF_RELEASED, "slot free, its hint not set")                                                \
    X(MBUF_CACHING, "buffer back in the cache, the thread does not know it")                       \
    X(REF_CLAIMED, "slot for a reference claimed, its block not written")                          \
    X(REF_COMMITTED, "last change of a count committed, own not announced")                        \
    X(REF_ANNOUNCED, "change of a count announced, not made")                                      \
    X(REF_CHANGED, "count changed, not committed")                                                 \
    X(REF_DONE, "change of a count committed")                                                     \
    X(BLOCK_LEFT, "head of a block gone, references not looked at")                                \
    X(BLOCK_UNUSED, "block without reference seen, not freed")                                     \
    X(BLOCK_FREED, "block freed, its hint not set")                                                \
    X(CHAIN_FREED, "member of a chain freed, the next not")                                        \
    X(CHAIN_MEMBER, "buffer made a member, not linked")                                            \
    X(CHAIN_LINKED, "member linked, not counted")                                                  \
    X(PUT_SENDING, "buffer on its way, in no slot")                                                \
    X(PUT_LOST, "slot taken by another sender")                                                    \
    X(PUT_DONE, "message in the ring, tail not moved")                                             \
    X(PUT_TAIL, "tail moved, no taker woken")                                                      \
    X(PUT_WAKE, "wake word changed, futex not called")                                             \
    X(TAKE_HEAD, "message taken, not committed")                                                   \
    X(TAKE_HELD, "buffer held, message not committed")                                             \
    X(TAKE_COMMITTED, "message committed, no sender woken")                                        \
    X(TAKE_WAKE, "room for a message, futex not called")                                           \
    X(QUEUE_ARMED, "counted as waiting, not looked again")                                         \
    X(QUEUE_DISARMED, "not counted as waiting any more")                                           \
    X(QUEUE_MAPPED, "one file of a queue mapped, not the other")                                   \
    X(CHECK_CHUNK_TAKEN, "chunk of a checked process mapped, not marked")                          \
    X(CHECK_WRITTEN, "record written, its first word not")                                         \
    X(CHECK_PUBLISHED, "record published")

enum kill_point {
#define KILL_POINT_ENUM(name, what) KILL_##name,
    KILL_POINTS(KILL_POINT_ENUM)
#undef KILL_POINT_ENUM
        KILL_POINT_COUNT
};

#ifdef NPUD_KILL_POINTS
/** tests/kill/kill_point.c */
void kill_point(enum kill_point point);
#define KILL_POINT(name) kill_point(KILL_##name)
#else
#define KILL_POINT(name) ((void)0)
#endif
