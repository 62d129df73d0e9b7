/*
 * Acts of npud and of its clients that are cut short: npud ends at each place between two stores,
 * and afterwards all is as in an npud that lives.
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/restart_steps.h"

struct act {
    const char *what;
    void (*start)(void);
    void (*prepare)(
        void); /* before npud ends; then all that there is to do is done. NULL: nothing */
    void (*submit)(void); /* by clients: once. NULL: nothing */
    void (*act)(void);    /* of npud: once more, unless it is done. NULL: turns */
    bool (*done)(void);
};

/** What the acts of a program have in common. */
struct stage {
    void (*turns)(void);    /* until there is nothing to do */
    void (*tell_all)(void); /* how it is, by tell() */
};

struct playing {
    const struct stage *stage;
    const struct act *act;
};

static inline void act_run(void *arg)
{
    const struct playing *p = arg;

    if (p->act->act)
        p->act->act();
    else
        p->stage->turns();
}

/** How it is after the act. pass 0: undisturbed; else npud ends when it comes there so often. */
static inline char *act_play(const struct stage *stage, const struct act *act,
                             enum kill_place place, unsigned pass, bool *killed)
{
    struct playing playing = {stage, act};
    char *text;

    act->start();
    if (act->prepare)
        act->prepare();
    stage->turns();
    if (act->submit)
        act->submit();
    *killed = pass > 0 && restart_kill(place, pass, act_run, &playing);
    if (pass == 0 || (*killed && !act->done()))
        act_run(&playing);
    stage->turns();
    text = text_of(stage->tell_all);
    stop_all();
    return text;
}

/** Play it with each death that there is: at each place, at each time that npud comes there. */
static inline void act_play_everywhere(const struct stage *stage, const struct act *act)
{
    char *undisturbed, *text;
    unsigned kills = 0;
    bool killed;

    undisturbed = act_play(stage, act, 0, 0, &killed);
    for (unsigned place = 0; place < KILL_PLACE_COUNT; place++) {
        killed = true;
        for (unsigned pass = 1; killed; pass = pass < 6 ? pass + 1 : 2 * pass) {
            text = act_play(stage, act, (enum kill_place)place, pass, &killed);
            kills += killed;
            if (!same_text(undisturbed, text))
                ck_abort_msg("%s, place %u, pass %u", act->what, place, pass);
            free(text);
        }
    }
    ck_assert_uint_ge(kills, 3);
    free(undisturbed);
}
