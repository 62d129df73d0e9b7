#include "client/tools/npuctl/print.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/field.h"
#include "client/tools/npuctl/text.h"

struct rows {
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage **row; /* the report's */
    size_t n;
};

static struct rows find_rows(const Npud__Report *report, const char *name)
{
    const ProtobufCFieldDescriptor *list =
        protobuf_c_message_descriptor_get_field_by_name(&npud__report__descriptor, name);
    const char *base = (const char *)report;

    return (struct rows){
        .type = list->descriptor,
        .row = *(ProtobufCMessage * *const *)(const void *)(base + list->offset),
        .n = *(const size_t *)(const void *)(base + list->quantifier_offset),
    };
}

/* --- in the order in which people look for them --- */

#define COMPARE(type, a, b)                                                                        \
    ((*(const type *)(a) > *(const type *)(b)) - (*(const type *)(a) < *(const type *)(b)))

static int compare_fields(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *row_a,
                          const ProtobufCMessage *row_b)
{
    const char *a = (const char *)row_a + field->offset, *b = (const char *)row_b + field->offset;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return strverscmp(field_text(row_a, field), field_text(row_b, field));
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        return COMPARE(int32_t, a, b);
    case PROTOBUF_C_TYPE_UINT32:
        return COMPARE(uint32_t, a, b);
    case PROTOBUF_C_TYPE_UINT64:
        return COMPARE(uint64_t, a, b);
    case PROTOBUF_C_TYPE_BOOL:
        return COMPARE(protobuf_c_boolean, a, b);
    default:
        return 0; /* no report shows another type */
    }
}

static int compare_rows(const void *pa, const void *pb, void *n_fields)
{
    const ProtobufCMessage *a = *(ProtobufCMessage *const *)pa;
    const ProtobufCMessage *b = *(ProtobufCMessage *const *)pb;
    int order = 0;

    for (unsigned c = 0; order == 0 && c < *(const unsigned *)n_fields; c++)
        order = compare_fields(&a->descriptor->fields[c], a, b);
    return order;
}

/*
 * By the fields that the table shows, the first column first: numbers by value, text as people
 * count ("stream 9" before "stream 10"). npud tells rows in the order of its own lists, which
 * changes as objects come and go.
 */
static void sort_rows(const Npud__Report *report, const char *name)
{
    struct rows rows = find_rows(report, name);
    unsigned n_fields = field_count_shown(rows.type);

    if (rows.n > 1)
        qsort_r(rows.row, rows.n, sizeof(ProtobufCMessage *), compare_rows, &n_fields);
}

/* --- for people --- */

/* Text is padded on its right, everything else on its left; nothing trails the last column. */
static void print_cell(const char *text, int width, int column, bool left, bool last)
{
    int pad = column - width;

    printf("%*s%s%*s", left ? 0 : pad, "", text, left && !last ? pad : 0, "");
    fputs(last ? "\n" : "  ", stdout);
}

/* Of a table: how many, and how wide each is. */
struct columns {
    unsigned n;
    int *width;
};

static int measure_column(const struct rows *rows, const ProtobufCFieldDescriptor *field)
{
    int max = (int)strlen(field->name), width;

    for (size_t i = 0; i < rows->n; i++) {
        free(field_print(rows->row[i], field, &width));
        max = width > max ? width : max;
    }
    return max;
}

static bool print_headings(const struct rows *rows, const struct columns *columns)
{
    for (unsigned c = 0; c < columns->n; c++) {
        const ProtobufCFieldDescriptor *field = &rows->type->fields[c];
        char *heading = field_heading(field, true);

        if (!heading)
            return false;
        print_cell(heading, (int)strlen(heading), columns->width[c], field_is_text(field),
                   c + 1 == columns->n);
        free(heading);
    }
    return true;
}

static bool print_row(const struct rows *rows, const ProtobufCMessage *row,
                      const struct columns *columns)
{
    for (unsigned c = 0; c < columns->n; c++) {
        const ProtobufCFieldDescriptor *field = &rows->type->fields[c];
        int width;
        char *text = field_print(row, field, &width);

        if (!text)
            return false;
        print_cell(text, width, columns->width[c], field_is_text(field), c + 1 == columns->n);
        free(text);
    }
    return true;
}

static bool print_table(const struct rows *rows)
{
    struct columns columns = {.n = field_count_shown(rows->type)};
    bool ok;

    columns.width = calloc(columns.n + 1, sizeof(*columns.width));
    ok = columns.width != NULL;
    for (unsigned c = 0; ok && c < columns.n; c++)
        columns.width[c] = measure_column(rows, &rows->type->fields[c]);
    ok = ok && print_headings(rows, &columns);
    for (size_t i = 0; ok && i < rows->n; i++)
        ok = print_row(rows, rows->row[i], &columns);
    free(columns.width);
    return ok;
}

static bool print_lines(const struct rows *rows)
{
    for (unsigned c = 0; rows->n > 0 && c < rows->type->n_fields; c++) {
        const ProtobufCFieldDescriptor *field = &rows->type->fields[c];
        int width;
        char *text = field_print(rows->row[0], field, &width);
        char *name = field_heading(field, false);

        if (text && name)
            printf("%s: %s\n", name, text);
        free(name);
        free(text);
        if (!text || !name)
            return false;
    }
    return true;
}

/* --- for programs --- */

cJSON *print_make_row(const ProtobufCMessage *row)
{
    cJSON *object = cJSON_CreateObject();
    bool ok = object != NULL;

    for (unsigned c = 0; ok && c < row->descriptor->n_fields; c++) {
        const ProtobufCFieldDescriptor *field = &row->descriptor->fields[c];
        char number[32];

        if (field_is_text(field)) {
            char *text = text_clean(field_text(row, field));

            ok = text && cJSON_AddStringToObject(object, field->name, text);
            free(text);
        } else {
            /* Raw: cJSON's own numbers are doubles and lose the low bits of 64. */
            field_format(row, field, number, sizeof(number));
            ok = cJSON_AddRawToObject(object, field->name, number);
        }
    }
    if (!ok) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

static cJSON *make_list_json(const struct rows *rows)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < rows->n; i++) {
        cJSON *row = print_make_row(rows->row[i]);

        ok = row && cJSON_AddItemToArray(list, row);
    }
    if (!ok) {
        cJSON_Delete(list);
        return NULL;
    }
    return list;
}

static bool add_json(cJSON *top, const struct rows *rows, const char *name, bool single)
{
    cJSON *value = single && rows->n > 0 ? print_make_row(rows->row[0]) : make_list_json(rows);

    return value && cJSON_AddItemToObject(top, name, value);
}

bool print_document(cJSON *document)
{
    char *text = cJSON_PrintUnformatted(document);

    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(document);
    return text != NULL;
}

static bool print_json(const Npud__Report *report, const struct command *command)
{
    cJSON *top = cJSON_CreateObject();
    struct rows rows = find_rows(report, command->name);
    bool ok = top && add_json(top, &rows, command->name, command->single);

    if (ok && command->also) {
        rows = find_rows(report, command->also);
        ok = add_json(top, &rows, command->also, false);
    }
    if (ok)
        return print_document(top);
    cJSON_Delete(top);
    return false;
}

/* For people. */
static bool print_text(const Npud__Report *report, const struct command *command)
{
    struct rows rows = find_rows(report, command->name);

    if (!(command->single ? print_lines(&rows) : print_table(&rows)))
        return false;
    if (!command->also)
        return true;
    rows = find_rows(report, command->also);
    return rows.n == 0 || (puts("") != EOF && print_table(&rows));
}

bool print_section(const Npud__Report *report, const char *list, const char *heading, bool single)
{
    struct rows rows = find_rows(report, list);

    if (rows.n == 0)
        return true;
    sort_rows(report, list);
    printf("%s\n", heading);
    return single ? print_lines(&rows) : print_table(&rows);
}

bool print_add_section(cJSON *to, const char *key, const Npud__Report *report, const char *list,
                       bool single)
{
    struct rows rows = find_rows(report, list);

    sort_rows(report, list);
    return add_json(to, &rows, key, single);
}

enum status print_end(bool ok)
{
    if (ok && fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    fprintf(stderr, "npuctl: cannot write: %s\n", strerror(ok ? errno : ENOMEM));
    return STATUS_ERROR;
}

enum status print_report(const Npud__Report *report, const struct command *command, bool json)
{
    bool ok;

    setlocale(LC_CTYPE, json ? "C.UTF-8" : "");
    sort_rows(report, command->name);
    if (command->also)
        sort_rows(report, command->also);
    ok = json ? print_json(report, command) : print_text(report, command);
    return print_end(ok);
}

enum status print_rule(uint64_t rule, bool json)
{
    printf(json ? "{\"rule\":%" PRIu64 "}\n" : "%" PRIu64 "\n", rule);
    return print_end(true);
}

enum status print_server(const char *version, int32_t pid, bool json)
{
    int width;
    char *text = json ? text_clean(version) : text_escape(version, true, &width);
    bool ok = text != NULL;

    if (ok && json) {
        cJSON *document = cJSON_CreateObject();

        cJSON_AddStringToObject(document, "version", text);
        cJSON_AddNumberToObject(document, "pid", pid);
        ok = print_document(document);
    } else if (ok) {
        printf("npud %s serves (pid %" PRId32 ")\n", text, pid);
    }
    free(text);
    return print_end(ok);
}
