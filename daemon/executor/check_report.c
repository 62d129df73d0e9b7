#include "daemon/executor/check_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const answers[] = {
    [CHECK_NOT_KNOWN] = "not known",
    [CHECK_YES] = "yes",
    [CHECK_NO] = "no",
    [CHECK_DIFFERS] = "differs",
};

static const char *npud_does(const struct check_row *row, const struct check_result *result)
{
    if (result->answer == CHECK_NOT_KNOWN)
        return "";
    return result->answer == CHECK_YES ? row->yes : row->no;
}

#define INDENT  13
#define COLUMNS 100

/* In lines of words; a word that is longer than a line is on one of its own. */
static void print_text(const char *text)
{
    unsigned column = 0;

    while (*text) {
        const unsigned word = (unsigned)strcspn(text, " ");

        if (column > 0 && column + 1 + word > COLUMNS) {
            putchar('\n');
            column = 0;
        }
        column += (unsigned)printf("%*s%.*s", column > 0 ? 1 : INDENT, "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    if (column > 0)
        putchar('\n');
}

void check_print_row(const struct check_row *row, const struct check_result *result)
{
    printf("%2u %-9s %s%s\n", row->number, answers[result->answer], row->what,
           row->required ? " (required)" : "");
    print_text(result->text);
    if (*npud_does(row, result))
        printf("%*snpud: %s\n", INDENT, "", npud_does(row, result));
    fflush(stdout);
}

/* --- JSON --- */

/* Bytes of a library's sentences that are no text become '?'. */
static void put_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            putc(' ', f);
        else
            putc((unsigned char)*s < 0x7f ? *s : '?', f);
    }
    putc('"', f);
}

static void put_member(FILE *f, const char *name, const char *value)
{
    fprintf(f, "\"%s\": ", name);
    put_string(f, value);
}

static void put_values(FILE *f, const struct check_result *result)
{
    fputs("\"values\": {", f);
    for (unsigned i = 0; i < result->n; i++) {
        const struct check_value *v = &result->values[i];

        fputs(i > 0 ? ", " : "", f);
        put_string(f, v->name);
        fprintf(f, ": {\"value\": %.17g, ", isfinite(v->value) ? v->value : 0);
        put_member(f, "unit", v->unit);
        putc('}', f);
    }
    putc('}', f);
}

static void put_row(FILE *f, const struct check_row *row, const struct check_result *result)
{
    fprintf(f, "    {\"number\": %u, ", row->number);
    put_member(f, "what", row->what);
    fprintf(f, ", \"required\": %s, ", row->required ? "true" : "false");
    put_member(f, "answer", answers[result->answer]);
    fputs(", ", f);
    put_member(f, "text", result->text);
    fputs(", ", f);
    put_values(f, result);
    fputs(", ", f);
    put_member(f, "npud", npud_does(row, result));
    putc('}', f);
}

bool check_write_json(const struct check *c, const struct check_result *const *results,
                      double seconds, bool holds)
{
    FILE *f = fopen(c->json, "we");
    const char *before = "";
    bool written;

    if (!f)
        return false;
    fputs("{\n  ", f);
    put_member(f, "npud", NPUD_VERSION);
    fputs(",\n  ", f);
    put_member(f, "backend", c->spec);
    fprintf(f,
            ",\n  \"device\": %u,\n  \"nesting\": %s,\n  \"seconds\": %.1f,\n  \"holds\": %s,\n"
            "  \"rows\": [\n",
            c->device, c->nesting ? "true" : "false", seconds, holds ? "true" : "false");
    for (unsigned i = 0; i < check_n_rows; i++) {
        if (!results[i])
            continue;
        fputs(before, f);
        put_row(f, &check_rows[i], results[i]);
        before = ",\n";
    }
    fputs("\n  ]\n}\n", f);
    written = !ferror(f);
    return fclose(f) == 0 && written;
}
