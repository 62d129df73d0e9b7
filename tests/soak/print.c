/* Operations in words. */
#include <string.h>

#include "tests/soak/round.h"

#define PRINTED_MAX 40u /* operations */

static void print_var(FILE *f, unsigned var)
{
    static const char *const names[] = {"level", "ack", "begin", "end"};

    if (var < VAR_LEVEL)
        fprintf(f, "e%u", var);
    else if (var < VAR_STAMP)
        fprintf(f, "%s%u", names[(var - VAR_LEVEL) / 4], var % 4);
    else if (var < VAR_SHARED)
        fprintf(f, "stamp%u", var - VAR_STAMP);
    else
        fprintf(f, "%s%u", var < VAR_SHARED + WILD_FIRST ? "ipc" : "wild", var - VAR_SHARED);
}

static void print_action(FILE *f, const struct op *op)
{
    static const char *const actions[] = {"does nothing", "compares", "writes",
                                          "waits for its gate", "is refused"};

    fputs(actions[op->action], f);
    if (op->action == CALL_CHECK || op->action == CALL_FILL)
        fprintf(f, " c%u", op->cell);
    fputs(op->block ? ", blocking" : "", f);
}

/*
 * %e event, %s stream, %g gate, %d device, %c and %f the cells, %a and %r the numbers, %k the kind,
 * %x what a callback does, %n notify, %p its process
 */
static void print_words(FILE *f, const struct op *op, const char *words)
{
    static const char *const kinds[KINDS] = {"default",      "sync",         "sync time", "ex sync",
                                             "ex sync time", "ex mark time", "IPC"};

    for (; *words; words++) {
        if (*words != '%') {
            fputc(*words, f);
            continue;
        }
        switch (*++words) {
        case 'e':
            print_var(f, op->var);
            break;
        case 'n':
            fprintf(f, "notify %u of p%u", op->var, op->from);
            break;
        case 'p':
            fprintf(f, "%u", op->from);
            break;
        case 's':
            if (op->service)
                fputs("the default stream", f);
            else
                fprintf(f, "s%u", op->stream);
            break;
        case 'g':
            fprintf(f, "gate %u", op->var);
            break;
        case 'd':
            fprintf(f, "device %u", device_of(op->stream));
            break;
        case 'x':
            print_action(f, op);
            break;
        case 'c':
        case 'f':
            fprintf(f, "c%u", *words == 'c' ? op->cell : op->from);
            break;
        case 'k':
            fputs(kinds[op->kind], f);
            break;
        default:
            fprintf(f, "%d", *words == 'a' ? op->arg : op->result);
            break;
        }
    }
}

static const char *const texts[WHATS] = {
    [DO_CREATE] = "%e = create (%k)",
    [DO_DESTROY] = "destroy %e",
    [DO_EXPORT] = "export %e",
    [DO_EXPORT_AGAIN] = "export %e, too",
    [DO_OPEN] = "open %e",
    [DO_RECORD] = "record %e in %s",
    [DO_WAIT] = "%s waits for %e",
    [DO_LOWER] = "reset %e in %s",
    [DO_QUERY] = "query %e",
    [DO_SYNC_EVENT] = "synchronise %e, limit %a ms",
    [DO_SLEEP] = "a second thread synchronises %e",
    [DO_PEEK] = "it sleeps",
    [DO_JOIN] = "it has returned",
    [DO_DELAY] = "%s works for %a us and returns %r",
    [DO_BURST] = "%s gets %a tasks at once",
    [DO_CLOSE_GATE] = "close %g",
    [DO_GATE] = "%s stops at %g",
    [DO_OPEN_GATE] = "open %g",
    [DO_COPY] = "%s copies %f to %c",
    [DO_COPY_FREED] = "%s copies what is freed at once",
    [DO_SET] = "%s sets %c to %a",
    [DO_FILL] = "write %c",
    [DO_CHECK] = "compare %c",
    [DO_ELAPSED] = "elapsed time of device %g",
    [DO_STAMP] = "time of %e",
    [DO_SYNC_STREAM] = "synchronise %s, limit %a ms",
    [DO_SYNC_DEVICE] = "synchronise %d",
    [DO_QUERY_STREAM] = "query %s",
    [DO_ABORT] = "abort %s",
    [DO_RENEW_STREAM] = "destroy and make anew %s",
    [DO_CALLBACK] = "%s gets a callback that %x",
    [DO_AWAIT_CALLBACKS] = "all callbacks have run",
    [DO_LATCH_RECORD] = "record %n in %s",
    [DO_LATCH_WAIT] = "%s waits for %n",
    [DO_EXPORT_KEYS] = "export notifies",
    [DO_ADMIT] = "admit p%p to the notifies",
    [DO_IMPORT] = "import the notifies of p%p",
    [DO_IMPORT_REFUSED] = "import a notify of p%p, not admitted",
    [DO_MEET] = "wait for the others",
    [DO_DIE] = "die",
    [DO_RUN_WILD] = "do whatever until killed after %a steps",
};

const char *op_name(unsigned what)
{
    return texts[what];
}

void op_print(FILE *f, const struct op *op)
{
    static const char *const status[] = {"", ", complete", ", not ready"};

    fprintf(f, "p%u: ", op->process);
    print_words(f, op, texts[op->what]);
    if (op->codes == 1 && op->code[0] == 0 && op->status == STATUS_ANY)
        return;
    for (unsigned i = 0; i < op->codes; i++)
        fprintf(f, "%s%d", i == 0 ? " -> " : " or ", op->code[i]);
    fputs(status[op->status], f);
}

/* The nearest first: what is many steps away is seldom to blame. */
static unsigned gather_causes(const struct round *r, unsigned op, bool *wanted)
{
    static uint16_t queue[OPS_MAX];
    unsigned n = 0, seen = 0;

    queue[n++] = (uint16_t)op;
    wanted[op] = true;
    while (seen < n && seen < PRINTED_MAX) {
        const struct op *o = &r->op[queue[seen++]];

        for (unsigned k = 0; k < o->causes; k++)
            if (!wanted[o->cause[k]]) {
                wanted[o->cause[k]] = true;
                queue[n++] = o->cause[k];
            }
    }
    for (unsigned i = PRINTED_MAX; i < n; i++)
        wanted[queue[i]] = false;
    return n > PRINTED_MAX ? n - PRINTED_MAX : 0;
}

void round_print(FILE *f, const struct round *r, unsigned op)
{
    static bool wanted[OPS_MAX];
    unsigned more;

    memset(wanted, 0, sizeof(wanted));
    more = gather_causes(r, op, wanted);
    if (more != 0)
        fprintf(f, "  (more that is further away)\n");
    for (unsigned i = 1; i < r->n; i++) {
        if (!wanted[i])
            continue;
        fprintf(f, "%s%5u  ", i == op ? "> " : "  ", i);
        op_print(f, &r->op[i]);
        fputc('\n', f);
    }
}

void round_print_all(FILE *f, const struct round *r)
{
    for (unsigned i = 1; i < r->n; i++) {
        fprintf(f, "  %5u  ", i);
        op_print(f, &r->op[i]);
        fputc('\n', f);
    }
}
