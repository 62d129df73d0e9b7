#include "daemon/admin/commands.h"

#include <errno.h>
#include <stddef.h>

#include "daemon/core/server.h"

static size_t write_record(const struct kept *kept, void *record)
{
    const struct commands *commands =
        (const struct commands *)((const char *)kept - offsetof(struct commands, kept));

    *(struct commands_record *)record = commands->done;
    return sizeof(struct commands_record);
}

int commands_keep(struct server *server)
{
    struct kept *kept = &server->commands->kept;

    if (kept->cell || kept_make(kept, KEPT_COMMANDS, sizeof(struct commands_record), write_record))
        return 0;
    return -ENOMEM;
}

void commands_forget(struct server *server)
{
    kept_drop(&server->commands->kept);
}

bool commands_restore(struct server *server, struct kept_cell *cell)
{
    struct commands *commands = server->commands;

    kept_read(cell, &commands->done, sizeof(commands->done));
    kept_drop(&commands->kept);
    return kept_bind(&commands->kept, cell, sizeof(commands->done), write_record);
}

struct command *commands_find(struct server *server, uid_t uid, uint64_t token)
{
    struct command *last = server->commands->done.last;

    for (unsigned i = 0; token != 0 && i < COMMANDS_MAX; i++)
        if (last[i].token == token && last[i].uid == uid)
            return &last[i];
    return NULL;
}

struct command *commands_note(struct server *server, uid_t uid, uint64_t token)
{
    struct commands_record *done = &server->commands->done;
    struct command *command = &done->last[done->n % COMMANDS_MAX];

    if (token == 0)
        return NULL;
    *command = (struct command){.token = token, .uid = uid};
    done->n++;
    commands_touch(server);
    return command;
}

void commands_take_back(struct server *server, struct command *command)
{
    if (!command)
        return;
    *command = (struct command){0};
    commands_touch(server);
}

void commands_touch(struct server *server)
{
    kept_touch(&server->commands->kept);
}

void commands_forget_upgrades(struct server *server)
{
    struct command *last = server->commands->done.last;

    for (unsigned i = 0; i < COMMANDS_MAX; i++)
        if (last[i].asks > 0)
            last[i] = (struct command){0};
    commands_touch(server);
}
