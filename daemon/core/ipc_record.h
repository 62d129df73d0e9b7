/*
 * Records of IPC events: how they end, and how waiters learn of it. Engines complete them; npud
 * fails those that will never be executed, because their session has died, has closed the event or
 * has dropped the stream, and remembers which failed and of which process they were.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ipc_event;
struct ipc_events;
struct ipc_open;
struct ipc_opener;
struct job;

/** Engine: the session's stream has reached its record `number`. Ignored if there is no such
 * pending record. */
void ipc_record_complete(struct ipc_open *open, uint64_t number);

/**
 * The session has dropped the stream in which its record `number` was queued: it fails. Ignored if
 * there is no such pending record. Threads that sleep on it are woken by ipc_records_wake(), once
 * for many records.
 */
void ipc_record_drop(struct ipc_open *open, uint64_t number);
void ipc_records_wake(struct ipc_events *all);

/**
 * Engine: the session's record `number` fails in place of being completed. Ignored if there is no
 * such pending record.
 */
void ipc_record_fail(struct ipc_open *open, uint64_t number);

/** Has this record failed? *pid: its process (0: unknown). Any thread. */
bool ipc_record_failed(struct ipc_event *event, uint64_t number, int32_t *pid);

/**
 * Is the record not pending any more? Then *error says how it ended: 0 or an ACL error, and *pid
 * the process to blame. A pending record whose opener npud does not know (any more) fails here. Any
 * thread.
 */
bool ipc_record_outcome(struct ipc_event *event, uint64_t number, int32_t *error, int32_t *pid);

/** The same question without a change of anything: for those that are on the list of waiters. */
bool ipc_record_over(struct ipc_event *event, uint64_t number);

/**
 * The opener leaves, and its number is gone in the page: its pending records fail, and so do all
 * others if the page is damaged. Returns how many have failed. Control thread.
 */
uint32_t ipc_records_fail_pending(struct ipc_event *event, uint32_t opener, int32_t pid);

/**
 * No stream of the opener has the record, and none had it for long: it fails, as one that was never
 * submitted. False: it is not pending (any more). When some have failed, ipc_records_abandoned()
 * lets go on what waits. Control thread.
 */
bool ipc_record_abandon(struct ipc_event *event, uint64_t number, uint32_t opener);
void ipc_records_abandoned(struct ipc_event *event);

/**
 * Has this record failed in that way? Also if the page says that it is pending again, which only a
 * hostile opener writes there. *pid: of the process that has the opener's number. Any thread.
 */
bool ipc_record_unsubmitted(struct ipc_event *event, uint64_t number, int32_t *pid);

/**
 * Let streams go on that wait for records which are over, a few in each step: the job `settle` of
 * an event. Sent when an engine, or a leaving opener, finds more of them than a step may have.
 */
bool ipc_records_settle(struct job *settle);

/**
 * While npud restores: streams are let go that were to fail because of a damaged page. Openers, and
 * the table of failures, are there, and streams have not parked again.
 */
void ipc_records_finish_restoring(struct ipc_event *event);

/** Once more, for a number that had been set aside: no process records with it any more. */
void ipc_records_sweep(struct ipc_event *event, struct ipc_opener *opener);
