/*
 * The commands that npud has carried out lately. npuctl sends one again if npud ends before it has
 * answered: it is remembered together with what it changes, in one transaction, so the next npud
 * carries it out or knows that it is done. A command that was refused has changed nothing and is
 * not remembered. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/kept/command_record.h"
#include "daemon/kept/kept.h"

struct server;

struct commands {
    struct kept kept;
    struct commands_record done;
    bool upgrade_asked; /* by this process: it is about to be replaced, or hears why not */
};

/** Make the record. 0 or -ENOMEM. */
int commands_keep(struct server *server);
/** npud has ended in order. */
void commands_forget(struct server *server);

/** The command of that user with this token, or NULL. token 0: it has none. */
struct command *commands_find(struct server *server, uid_t uid, uint64_t token);
/**
 * Remember one that is about to be carried out: with the first change of it that is certain. NULL:
 * it has no token to remember it by. Constant until the next one.
 */
struct command *commands_note(struct server *server, uid_t uid, uint64_t token);
/** It was refused, and nothing has changed. Safe on NULL. */
void commands_take_back(struct server *server, struct command *command);
/** It has changed. */
void commands_touch(struct server *server);
/** There is no upgrade: those that were noted are no commands that were carried out. */
void commands_forget_upgrades(struct server *server);
