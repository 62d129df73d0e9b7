#include "client/tools/npuctl/top_screen.h"

#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npuctl/top.h"

#define REFRESH_MS 1000
#define ESCAPE     27
#define ESCAPE_MS  50 /* until what begins with it must have come: keys of the terminal do */

struct view {
    const char *path;
    struct top *top;
    enum top_order order;
    int first; /* line at the top of the screen */
    char filter[32];
    bool typing; /* the filter */
    bool quit;
};

/* What is typed, or shown in place of all: else rows are missing without a word. */
static void draw_keys(const struct view *v)
{
    static const char keys[] =
        "q quit  sort: s session, t tasks, b blocked, m memory  / filter  up, down";
    char line[sizeof(keys) + sizeof(v->filter) + 32];

    if (v->typing)
        snprintf(line, sizeof(line), "filter: %s", v->filter);
    else if (v->filter[0])
        snprintf(line, sizeof(line), "showing %s only: Esc ends that  %s", v->filter, keys);
    else
        snprintf(line, sizeof(line), "%s", keys);
    attron(A_REVERSE);
    mvaddnstr(LINES - 1, 0, line, COLS > 1 ? COLS - 1 : 0);
    attroff(A_REVERSE);
}

/* The last line of the text is at the bottom of the screen at most: it has become shorter, too. */
static void bound_first(struct view *v, const char *text)
{
    int below = -(LINES - 1);

    for (; *text; text++)
        below += *text == '\n';
    if (v->first > below)
        v->first = below > 0 ? below : 0;
}

/* A line has no more columns than bytes, so none is wrapped. */
static void draw_text(struct view *v, char *text)
{
    char *line;

    bound_first(v, text);
    erase();
    for (int n = 0; (line = strsep(&text, "\n")) && n - v->first < LINES - 1; n++)
        if (n >= v->first)
            mvaddnstr(n - v->first, 0, line, COLS);
    draw_keys(v);
    refresh();
}

static void draw_view(struct view *v)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return;
    top_print(f, v->top, v->order, v->filter);
    if (fclose(f) == 0)
        draw_text(v, text);
    free(text);
}

static void drop_filter(struct view *v)
{
    memset(v->filter, 0, sizeof(v->filter));
    v->typing = false;
}

static void type_filter(struct view *v, int key)
{
    size_t n = strlen(v->filter);

    if (key == ESCAPE)
        drop_filter(v);
    else if (key == '\n' || key == KEY_ENTER)
        v->typing = false;
    else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n > 0)
        v->filter[n - 1] = '\0';
    else if (key > ' ' && key < 127 && n + 1 < sizeof(v->filter))
        v->filter[n] = (char)key;
}

static void obey_key(struct view *v, int key)
{
    if (v->typing) {
        type_filter(v, key);
        return;
    }
    switch (key) {
    case 'q':
        v->quit = true;
        break;
    case 's':
        v->order = TOP_BY_SESSION;
        break;
    case 't':
        v->order = TOP_BY_RATE;
        break;
    case 'b':
        v->order = TOP_BY_BLOCKED;
        break;
    case 'm':
        v->order = TOP_BY_MEMORY;
        break;
    case '/':
        drop_filter(v);
        v->typing = true;
        break;
    case ESCAPE:
        drop_filter(v);
        break;
    case KEY_DOWN:
        v->first++;
        break;
    case KEY_UP:
        v->first -= v->first > 0;
        break;
    default:
        break; /* also KEY_RESIZE: drawn anew */
    }
}

/* npud is asked when no key has come for a while: held down, a key does not make it work. */
static enum status run_view(struct view *v)
{
    enum status status = STATUS_OK;
    int key;

    while (!v->quit) {
        draw_view(v);
        key = getch();
        if (key != ERR)
            obey_key(v, key);
        else
            status = top_refresh(&v->top, v->path);
        if (status != STATUS_OK)
            break;
    }
    return status;
}

enum status top_show(const char *path)
{
    struct view v = {.path = path, .order = TOP_BY_RATE};
    enum status status;
    SCREEN *screen;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        fputs("npuctl: top needs a terminal; top --once prints what it would show\n", stderr);
        return STATUS_USAGE;
    }
    status = top_refresh(&v.top, path);
    if (status != STATUS_OK)
        return status;
    screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        fputs("npuctl: this terminal ($TERM) is not known, or cannot show top\n", stderr);
        top_free(v.top);
        return STATUS_ERROR;
    }
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    timeout(REFRESH_MS);
    status = run_view(&v);
    endwin();
    delscreen(screen);
    if (status != STATUS_OK)
        fprintf(stderr, "npuctl: npud at %s does not answer any more\n", path);
    top_free(v.top);
    return status;
}
