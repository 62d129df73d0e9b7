/*
 * npuctl: who holds what, and who waits for whom. Everything that is printed is read through
 * protobuf-c's descriptors of npud.proto, so a new field appears by itself, and a new report needs
 * one row in `commands`.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "proto/util/clock.h"
#include "client/core/access.h"
#include "client/tools/npuctl/inject.h"
#include "client/tools/npuctl/rate.h"
#include "client/tools/npuctl/sort.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define ANSWER_TIMEOUT_S 10 /* npud answers within milliseconds, or it hangs */

enum status {
    STATUS_OK = 0,
    STATUS_ERROR = 1,
    STATUS_USAGE = 2,
    STATUS_UNREACHABLE = 3,
};

/* A command is named as the field of Report that it prints, and as the key of its JSON. */
static const struct command {
    const char *name;
    Npud__AdminRequest__Topic topic;
    bool single;      /* one row by nature: printed as lines, and no list in JSON */
    const char *also; /* a second list of the same report, printed below if it is not empty */
    const char *help;
} commands[] = {
    {"status", NPUD__ADMIN_REQUEST__TOPIC__STATUS, true, NULL, "npud itself, and totals"},
    {"devices", NPUD__ADMIN_REQUEST__TOPIC__DEVICES, false, NULL, "the NPUs and what they did"},
    {"sessions", NPUD__ADMIN_REQUEST__TOPIC__SESSIONS, false, NULL, "connected processes"},
    {"streams", NPUD__ADMIN_REQUEST__TOPIC__STREAMS, false, NULL, "what each waits for"},
    {"events", NPUD__ADMIN_REQUEST__TOPIC__EVENTS, false, NULL, "plain and IPC events"},
    {"memory", NPUD__ADMIN_REQUEST__TOPIC__MEMORY, false, NULL,
     "allocations on devices, and pinned"},
    {"limits", NPUD__ADMIN_REQUEST__TOPIC__LIMITS, false, NULL, "per user: used, and allowed"},
    {"notifies", NPUD__ADMIN_REQUEST__TOPIC__NOTIFIES, false, NULL, "notifies and count notifies"},
    {"pools", NPUD__ADMIN_REQUEST__TOPIC__POOLS, false, NULL, "shared buffers, and who has them"},
    {"queues", NPUD__ADMIN_REQUEST__TOPIC__QUEUES, false, NULL, "shared queues, and how fast"},
    {"grants", NPUD__ADMIN_REQUEST__TOPIC__GRANTS, false, NULL, "who may do what with queues"},
    {"routes", NPUD__ADMIN_REQUEST__TOPIC__ROUTES, false, NULL,
     "who moves what from queue to queue"},
    {"waits", NPUD__ADMIN_REQUEST__TOPIC__WAITS, false, "deadlocks",
     "who waits for whom, and deadlocks"},
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* What `inject list` prints. */
static const struct command list_rules = {.name = "rules",
                                          .topic = NPUD__ADMIN_REQUEST__TOPIC__RULES};

static void usage(FILE *f)
{
    fputs("Usage: npuctl [OPTION]... COMMAND\n"
          "       npuctl [OPTION]... kill SESSION\n"
          "       npuctl [OPTION]... inject fail|stall|lose-device [RULE-OPTION]...\n"
          "       npuctl [OPTION]... inject list | clear [RULE]\n"
          "Ask npud who holds what, and who waits for whom; end a session; or make tasks fail.\n"
          "\n",
          f);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs(
        "  kill       end SESSION (a number from `sessions`) as if its process had died: what it\n"
        "             held is free, who waited for it gets an error. The process lives on, and\n"
        "             gets 507901 from calls that need npud\n"
        "  inject     let tasks fail, hold them, or lose a device: sets a rule and prints its\n"
        "             number. `inject list` shows the rules, `inject clear` ends all of them or\n"
        "             one: what is held goes on, and a lost device is back\n"
        "\n"
        "  --kind=KIND        rules are for tasks of this kind (copy, delay, ipc-record, ...),\n"
        "  --session=SESSION  of this session,\n"
        "  --device=DEVICE    on this device (with lose-device alone: the one to lose)\n"
        "  --stream=STREAM    and in this stream. They hit all of these, or\n"
        "  --nth=N            the Nth and, with\n"
        "  --count=N          from there on N in all,\n"
        "  --probability=P    each with this probability, drawn from\n"
        "  --seed=SEED        this seed\n"
        "  --code=CODE        what they fail with, a number or a name; default 507000\n"
        "\n"
        "  -j, --json         print one JSON object, {\"COMMAND\": [{...}, ...]}; for\n"
        "                     status an object in place of the list. Keys are the headings\n"
        "                     of the table in lower case with _ for -. Later versions may\n"
        "                     add keys, and change none\n"
        "  -b, --bytes        print exact sizes in tables, too: bytes, not KiB, MiB and so on\n"
        "  -w, --watch[=SECONDS]\n"
        "                     print again every SECONDS (default 1) until interrupted\n"
        "  -i, --interval=SECONDS\n"
        "                     rates are over so many seconds (default 0.2)\n"
        "  -s, --socket=PATH  ask the npud that listens there; default $NPUD_ADMIN_SOCKET,\n"
        "                     else " NPUD_ADMIN_SOCKET_DEFAULT "\n"
        "  -V, --version      print the version and exit\n"
        "  -h, --help         print this and exit\n"
        "\n"
        "Rows are sorted, by the first column first. Numbers are sizes, seconds (-S),\n"
        "milliseconds (-MS), or counts. Bytes of a text that cannot be printed are shown as\n"
        "\\xHH, and so are blanks in names that programs choose; an empty text is shown as -.\n"
        "In JSON sizes are bytes, and what is not UTF-8 becomes U+FFFD.\n"
        "\n"
        "Exit status: 0 printed; 1 npud answered with an error, or the output could not be\n"
        "written; 2 wrong usage; 3 no npud could be reached.\n",
        f);
}

/* --- text --- */

/* wchar_t is unsigned on arm64: compare as what it is there and here. */
#define NO_CHARACTER ((wchar_t)-1)

/*
 * The character at s in the current locale, or NO_CHARACTER for a byte that begins none. Returns
 * its length.
 */
static size_t char_read(const char *s, wchar_t *wc)
{
    mbstate_t state = {0};
    size_t n = mbrtowc(wc, s, strlen(s), &state);

    if (n != (size_t)-1 && n != (size_t)-2)
        return n;
    *wc = NO_CHARACTER;
    return 1;
}

/*
 * Control characters may not reach a terminal, nor those without a width, which could reorder or
 * hide others.
 */
static int char_width(wchar_t wc)
{
    return wc == NO_CHARACTER || wc == L'\\' ? -1 : wcwidth(wc);
}

/*
 * What a client sent, fit for a terminal. With `one_word` without blanks, so that it cannot look
 * like more columns than one. The caller frees it.
 */
static char *text_escape(const char *s, bool one_word, int *width)
{
    char *out = malloc(4 * strlen(s) + 2), *p = out;
    wchar_t wc;

    *width = 0;
    if (!out)
        return NULL;
    if (!*s)
        s = "-"; /* a column must not vanish for awk */
    while (*s) {
        size_t n = char_read(s, &wc);
        int w = char_width(wc);

        if (w > 0 && !(one_word && iswspace((wint_t)wc))) {
            p = mempcpy(p, s, n);
            *width += w;
        } else {
            for (size_t i = 0; i < n; i++)
                p += sprintf(p, "\\x%02x", (unsigned char)s[i]);
            *width += 4 * (int)n;
        }
        s += n;
    }
    *p = '\0';
    return out;
}

/*
 * The same for JSON, under a UTF-8 locale. cJSON escapes what JSON forbids, but copies broken
 * UTF-8, and it copies DEL and the control characters above ASCII, which some terminals obey.
 */
static char *text_clean(const char *s)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    char *out = malloc(3 * strlen(s) + 1), *p = out;
    wchar_t wc;

    if (!out)
        return NULL;
    while (*s) {
        size_t n = char_read(s, &wc);
        bool bad = wc == NO_CHARACTER || (wc >= (wchar_t)0x7f && wc < (wchar_t)0xa0);

        p = bad ? stpcpy(p, replacement) : mempcpy(p, s, n);
        s += n;
    }
    *p = '\0';
    return out;
}

/* --- fields of a message, whatever message it is --- */

static const void *field_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (const char *)message + field->offset;
}

#define FIELD_FOR_PROGRAMS 100 /* numbers from here on: see npud.proto */

/* How many fields go into the table. Descriptors are sorted by number. */
static unsigned fields_shown(const ProtobufCMessageDescriptor *type)
{
    unsigned n = 0;

    while (n < type->n_fields && type->fields[n].id < FIELD_FOR_PROGRAMS)
        n++;
    return n;
}

static bool field_is_text(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_STRING;
}

static const char *field_text(const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field)
{
    const char *text = *(char *const *)field_of(message, field);

    return text ? text : "";
}

/* A number or truth value the way JSON writes it, exact. */
static void field_format(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                         char *buf, size_t size)
{
    const void *p = field_of(message, field);

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        snprintf(buf, size, "%" PRId32, *(const int32_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        snprintf(buf, size, "%" PRIu32, *(const uint32_t *)p);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        snprintf(buf, size, "%" PRId64, *(const int64_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)p);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        snprintf(buf, size, "%s", *(const protobuf_c_boolean *)p ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        if (isfinite(*(const double *)p)) {
            snprintf(buf, size, "%.15g", *(const double *)p);
            break;
        }
        /* fall through */
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        snprintf(buf, size, "null"); /* no report has them; text is not printed here */
        break;
    }
}

/* Programs choose it: everything else in a table is said by npud. */
static bool field_is_chosen(const ProtobufCFieldDescriptor *field)
{
    return strcmp(field->name, "program") == 0 || strcmp(field->name, "name") == 0;
}

/* A limit is of bytes if its resource is memory. */
static bool is_memory_limit(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *resource;

    if (message->descriptor != &npud__limit_row__descriptor || field_is_text(field) ||
        strcmp(field->name, "uid") == 0)
        return false;
    resource = ((const Npud__LimitRow *)message)->resource;
    return resource && strstr(resource, "memory");
}

/* Is it a number of bytes? All of these are uint64. */
static bool field_is_size(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    static const char *const names[] = {"bytes",        "backlog_bytes", "buffer_bytes",
                                        "memory_bytes", "memory_total",  "memory_used",
                                        "size"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(field->name, names[i]) == 0)
            return true;
    return is_memory_limit(message, field);
}

/* Three digits or four, and the unit: as exact as one can take in at a glance. */
static void size_format(uint64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(buf, size, "%" PRIu64, bytes);
        return;
    }
    while (value >= 1023.5) {
        value /= 1024;
        unit++;
    }
    /* 2 and not 2.0: most are powers of two. */
    if (value < 99.95 && value != (double)(uint64_t)value)
        snprintf(buf, size, "%.1f%s", value, units[unit]);
    else
        snprintf(buf, size, "%.0f%s", value, units[unit]);
}

/* What --bytes sets. */
static bool exact_sizes;

/* For people. The caller frees it. */
static char *field_print(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                         int *width)
{
    char buf[32];

    if (field_is_text(field))
        return text_escape(field_text(message, field), field_is_chosen(field), width);
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        strcpy(buf, *(const protobuf_c_boolean *)field_of(message, field) ? "yes" : "no");
    else if (!exact_sizes && field_is_size(message, field))
        size_format(*(const uint64_t *)field_of(message, field), buf, sizeof(buf));
    else
        field_format(message, field, buf, sizeof(buf));
    return text_escape(buf, false, width);
}

/* The field's name as people read it: upper case as a heading, with '-' for '_'. */
static char *field_heading(const ProtobufCFieldDescriptor *field, bool upper)
{
    char *name = strdup(field->name);

    for (char *p = name; p && *p; p++) {
        if (*p == '_')
            *p = '-';
        else if (upper && *p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
    }
    return name;
}

/* --- the rows of a report --- */

struct rows {
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage **row; /* the report's */
    size_t n;
};

static struct rows rows_of(const Npud__Report *report, const char *name)
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

/* --- for people --- */

/* Text is padded on its right, everything else on its left; nothing trails the last column. */
static void cell_print(const char *text, int width, int column, bool left, bool last)
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

static int column_width(const struct rows *rows, const ProtobufCFieldDescriptor *field)
{
    int max = (int)strlen(field->name), width;

    for (size_t i = 0; i < rows->n; i++) {
        free(field_print(rows->row[i], field, &width));
        max = width > max ? width : max;
    }
    return max;
}

static bool headings_print(const struct rows *rows, const struct columns *columns)
{
    for (unsigned c = 0; c < columns->n; c++) {
        const ProtobufCFieldDescriptor *field = &rows->type->fields[c];
        char *heading = field_heading(field, true);

        if (!heading)
            return false;
        cell_print(heading, (int)strlen(heading), columns->width[c], field_is_text(field),
                   c + 1 == columns->n);
        free(heading);
    }
    return true;
}

static bool row_print(const struct rows *rows, const ProtobufCMessage *row,
                      const struct columns *columns)
{
    for (unsigned c = 0; c < columns->n; c++) {
        const ProtobufCFieldDescriptor *field = &rows->type->fields[c];
        int width;
        char *text = field_print(row, field, &width);

        if (!text)
            return false;
        cell_print(text, width, columns->width[c], field_is_text(field), c + 1 == columns->n);
        free(text);
    }
    return true;
}

static bool table_print(const struct rows *rows)
{
    struct columns columns = {.n = fields_shown(rows->type)};
    bool ok;

    columns.width = calloc(columns.n + 1, sizeof(*columns.width));
    ok = columns.width != NULL;
    for (unsigned c = 0; ok && c < columns.n; c++)
        columns.width[c] = column_width(rows, &rows->type->fields[c]);
    ok = ok && headings_print(rows, &columns);
    for (size_t i = 0; ok && i < rows->n; i++)
        ok = row_print(rows, rows->row[i], &columns);
    free(columns.width);
    return ok;
}

static bool lines_print(const struct rows *rows)
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

static cJSON *row_json(const ProtobufCMessage *row)
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

static cJSON *list_json(const struct rows *rows)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < rows->n; i++) {
        cJSON *row = row_json(rows->row[i]);

        ok = row && cJSON_AddItemToArray(list, row);
    }
    if (!ok) {
        cJSON_Delete(list);
        return NULL;
    }
    return list;
}

static bool json_add(cJSON *top, const struct rows *rows, const char *name, bool single)
{
    cJSON *value = single && rows->n > 0 ? row_json(rows->row[0]) : list_json(rows);

    return value && cJSON_AddItemToObject(top, name, value);
}

static bool json_print(const Npud__Report *report, const struct command *command)
{
    cJSON *top = cJSON_CreateObject();
    struct rows rows = rows_of(report, command->name);
    char *text = NULL;
    bool ok = top && json_add(top, &rows, command->name, command->single);

    if (ok && command->also) {
        rows = rows_of(report, command->also);
        ok = json_add(top, &rows, command->also, false);
    }
    if (ok)
        text = cJSON_PrintUnformatted(top);
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(top);
    return text != NULL;
}

/* For people. */
static bool text_print(const Npud__Report *report, const struct command *command)
{
    struct rows rows = rows_of(report, command->name);

    if (!(command->single ? lines_print(&rows) : table_print(&rows)))
        return false;
    if (!command->also)
        return true;
    rows = rows_of(report, command->also);
    return rows.n == 0 || (puts("") != EOF && table_print(&rows));
}

static void report_sort(const Npud__Report *report, const char *name)
{
    struct rows rows = rows_of(report, name);

    rows_sort(rows.row, rows.n, fields_shown(rows.type));
}

/* "npuctl: cannot write", unless all was written. */
static enum status output_end(bool ok)
{
    if (ok && fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    fprintf(stderr, "npuctl: cannot write: %s\n", strerror(ok ? errno : ENOMEM));
    return STATUS_ERROR;
}

static enum status report_print(const Npud__Report *report, const struct command *command,
                                bool json)
{
    bool ok;

    setlocale(LC_CTYPE, json ? "C.UTF-8" : "");
    report_sort(report, command->name);
    if (command->also)
        report_sort(report, command->also);
    ok = json ? json_print(report, command) : text_print(report, command);
    return output_end(ok);
}

/* --- asking --- */

static void explain_unreachable(const char *path, int error)
{
    char who[ACCESS_TEXT_MAX];

    if (error == EACCES) {
        access_explain(path, who, sizeof(who));
        fprintf(stderr, "npuctl: npud at %s refuses this user: %s\n", path, who);
        return;
    }
    fprintf(stderr, "npuctl: no npud at %s: %s\n", path, strerror(error));
    fputs("Start one with 'systemctl start npud.socket', or run a command with a private one:\n"
          "'npu-run -- COMMAND'. $NPUD_ADMIN_SOCKET or --socket say where to look.\n",
          stderr);
}

static const char *socket_of(const char *variable, const char *otherwise)
{
    const char *path = getenv(variable);

    return path && path[0] ? path : otherwise;
}

/* A connected socket, or a negative errno. */
static int connect_socket(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_TIMEOUT_S};
    int fd, r = 0;

    if (strlen(path) >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    strcpy(addr.sun_path, path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        r = -errno;
        close(fd);
    }
    return r < 0 ? r : fd;
}

/* One packet there, one back. 0 or a negative errno. */
static int exchange(int fd, const ProtobufCMessage *request, struct packet *packet)
{
    int sent = packet_send_message(fd, request, NULL, 0, 0);
    int r = packet_recv(fd, packet, 0);

    /*
     * npud may refuse us and hang up before it reads the request. The kernel tells that first, and
     * then gives the answer.
     */
    if (r == -ECONNRESET)
        r = packet_recv(fd, packet, 0);
    if (r <= 0)
        return r < 0 ? r : sent < 0 ? sent : -ECONNRESET;
    return 0;
}

static enum status explain_silence(const char *path, int error)
{
    fprintf(stderr, "npuctl: npud at %s does not answer: %s\n", path, strerror(-error));
    return STATUS_UNREACHABLE;
}

static enum status explain_refusal(const char *sentence, int32_t code)
{
    int width;
    char *message = text_escape(sentence, false, &width);

    fprintf(stderr, "npuctl: npud refuses: %s (error %d)\n", message ? message : "", (int)code);
    free(message);
    return STATUS_ERROR;
}

/*
 * The report in the memory file fd, empty without one. Read, not mapped: a file shorter than
 * promised is an error and no SIGBUS.
 */
static Npud__Report *report_read(int fd, uint64_t size)
{
    Npud__Report *report = NULL;
    struct stat st;
    uint8_t *data;
    uint64_t got = 0;

    if (size == 0)
        return npud__report__unpack(NULL, 0, NULL);
    if (fd < 0 || fstat(fd, &st) < 0 || size > (uint64_t)st.st_size)
        return NULL;
    data = malloc(size);
    while (data && got < size) {
        ssize_t n = pread(fd, data + got, size - got, (off_t)got);

        if (n <= 0)
            break;
        got += (uint64_t)n;
    }
    if (data && got == size)
        report = npud__report__unpack(NULL, size, data);
    free(data);
    return report;
}

static void sleep_until(uint64_t ns)
{
    struct timespec until = timespec_from_ns(ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* What to do, from the command line. */
struct task {
    const char *path;
    bool named;                    /* path was given on the command line */
    const struct command *command; /* NULL: end session, or inject */
    uint64_t session;
    struct inject_command *inject; /* NULL: not that */
    bool json;
    double interval; /* seconds between the two questions of a report with rates */
};

/* What was set: for scripts, its number. */
static enum status rule_print(uint64_t rule, bool json)
{
    printf(json ? "{\"rule\":%" PRIu64 "}\n" : "%" PRIu64 "\n", rule);
    return output_end(true);
}

/* What npud has answered. */
struct answer {
    Npud__Report *report; /* NULL: not asked for one */
    uint64_t rule;
    uint64_t at; /* when */
};

static enum status answer_report(const struct packet *packet, uint64_t size, struct answer *answer)
{
    answer->report = report_read(packet->n_fds > 0 ? packet->fds[0] : -1, size);
    if (answer->report)
        return STATUS_OK;
    fputs("npuctl: npud's report cannot be read\n", stderr);
    return STATUS_ERROR;
}

static enum status answer_read(const Npud__AdminReply *reply, struct packet *packet,
                               const struct task *task, struct answer *answer)
{
    if (reply->error != 0)
        return explain_refusal(reply->message, reply->error);
    *answer = (struct answer){.rule = reply->rule, .at = clock_ns()};
    return task->command ? answer_report(packet, reply->size, answer) : STATUS_OK;
}

/* One question. On STATUS_OK the caller frees answer->report. */
static enum status question(int fd, const struct task *task, struct answer *answer)
{
    static struct packet packet;
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;
    Npud__AdminReply *reply = NULL;
    enum status status;
    int error;

    request.id = 1;
    request.protocol = PROTOCOL;
    request.topic = task->command ? task->command->topic : 0;
    request.end_session = task->session;
    if (task->inject && task->inject->verb == INJECT_VERB_SET)
        request.inject = &task->inject->rule;
    if (task->inject && task->inject->verb == INJECT_VERB_CLEAR) {
        request.clear_rule = task->inject->clear;
        request.clear_rules = task->inject->clear == 0;
    }
    error = exchange(fd, &request.base, &packet);
    if (error == 0)
        reply = npud__admin_reply__unpack(NULL, packet.size, packet.data);
    status = reply ? answer_read(reply, &packet, task, answer)
                   : explain_silence(task->path, error ? error : -EPROTO);
    if (reply)
        npud__admin_reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return status;
}

/* --- a user's own waits, at the clients' socket --- */

/* STATUS_OK and *again_ms not 0: it is to be asked again after so long. */
static enum status own_answer_read(const Npud__Reply *reply, const struct packet *packet,
                                   struct answer *answer, uint32_t *again_ms)
{
    if (reply->body_case != NPUD__REPLY__BODY_OWN_WAITS)
        return explain_refusal(reply->message, reply->error);
    *again_ms = reply->own_waits->again_ms;
    return *again_ms == 0 ? answer_report(packet, reply->own_waits->size, answer) : STATUS_OK;
}

static enum status question_own(int fd, const char *path, struct answer *answer, uint32_t *again_ms)
{
    static struct packet packet;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__OwnWaits own_waits = NPUD__OWN_WAITS__INIT;
    Npud__Reply *reply = NULL;
    enum status status;
    int error;

    request.id = 1;
    request.body_case = NPUD__REQUEST__BODY_OWN_WAITS;
    request.own_waits = &own_waits;
    error = exchange(fd, &request.base, &packet);
    if (error == 0)
        reply = npud__reply__unpack(NULL, packet.size, packet.data);
    status = reply ? own_answer_read(reply, &packet, answer, again_ms)
                   : explain_silence(path, error ? error : -EPROTO);
    if (reply)
        npud__reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return status;
}

/* For who may use npud and not administer it. */
static enum status ask_own(const struct task *task)
{
    static bool told;
    const char *path = socket_of("NPUD_SOCKET", NPUD_SOCKET_DEFAULT);
    struct answer answer = {0};
    uint32_t again_ms = 0;
    enum status status;
    int fd = connect_socket(path);

    if (fd < 0) {
        explain_unreachable(task->path, EACCES);
        return STATUS_UNREACHABLE;
    }
    do {
        sleep_until(clock_ns() + again_ms * NSEC_PER_MSEC);
        status = question_own(fd, path, &answer, &again_ms);
    } while (status == STATUS_OK && !answer.report);
    close(fd);
    if (status != STATUS_OK)
        return status;
    if (!told)
        fprintf(stderr,
                "npuctl: %s is for administrators: these are the waits of your own processes\n",
                task->path);
    told = true;
    status = report_print(answer.report, task->command, task->json);
    npud__report__free_unpacked(answer.report, NULL);
    return status;
}

/* Do its rows say how fast something goes? */
static bool has_rates(const struct command *command)
{
    const ProtobufCFieldDescriptor *list =
        protobuf_c_message_descriptor_get_field_by_name(&npud__report__descriptor, command->name);

    return protobuf_c_message_descriptor_get_field_by_name(list->descriptor, "rate") != NULL;
}

/* The same question again, a moment after the first answer: what was counted in between. */
static enum status question_rates(int fd, const struct task *task, struct answer *answer)
{
    struct answer before = *answer;
    enum status status;

    sleep_until(before.at + (uint64_t)(task->interval * (double)NSEC_PER_SEC));
    status = question(fd, task, answer);
    if (status == STATUS_OK)
        rates_fill(answer->report, before.report, answer->at - before.at);
    npud__report__free_unpacked(before.report, NULL);
    return status;
}

static enum status ask(const struct task *task)
{
    struct answer answer = {0};
    enum status status;
    int fd = connect_socket(task->path);

    if (fd == -EACCES && !task->named && task->command &&
        task->command->topic == NPUD__ADMIN_REQUEST__TOPIC__WAITS)
        return ask_own(task);
    if (fd < 0) {
        explain_unreachable(task->path, -fd);
        return STATUS_UNREACHABLE;
    }
    status = question(fd, task, &answer);
    if (status == STATUS_OK && task->command && has_rates(task->command))
        status = question_rates(fd, task, &answer);
    close(fd);
    if (status != STATUS_OK)
        return status;
    if (!task->command || !answer.report)
        return answer.rule != 0 ? rule_print(answer.rule, task->json) : STATUS_OK;
    status = report_print(answer.report, task->command, task->json);
    npud__report__free_unpacked(answer.report, NULL);
    return status;
}

/*
 * Again and again, at even distances, until it fails or somebody interrupts it. What it has slept
 * through, stopped by a shell or with the machine, is not made up for: the next report comes at the
 * next even distance.
 */
static enum status watch(const struct task *task, double seconds)
{
    bool terminal = isatty(STDOUT_FILENO);
    uint64_t step = (uint64_t)(seconds * (double)NSEC_PER_SEC), next = clock_ns();
    uint64_t now;
    enum status status;

    for (;;) {
        if (terminal)
            fputs("\033[H\033[2J", stdout); /* home, clear */
        status = ask(task);
        if (status != STATUS_OK)
            return status;
        if (!terminal && !task->json)
            puts("");
        next += step;
        now = clock_ns();
        if (next < now)
            next += (now - next + step - 1) / step * step;
        sleep_until(next);
    }
}

/* --- command line --- */

static const struct option long_options[] = {
    {"json", no_argument, NULL, 'j'},
    {"bytes", no_argument, NULL, 'b'},
    {"watch", optional_argument, NULL, 'w'},
    {"interval", required_argument, NULL, 'i'},
    {"socket", required_argument, NULL, 's'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    INJECT_LONG_OPTIONS,
    {NULL, 0, NULL, 0},
};

static enum status wrong_usage(const char *what, const char *name)
{
    fprintf(stderr, "npuctl: %s%s%s%s\nTry 'npuctl --help'.\n", what, name ? " \"" : "",
            name ? name : "", name ? "\"" : "");
    return STATUS_USAGE;
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = text ? strtod(text, &end) : 1;
    return !text || (end != text && !*end && *seconds >= 0.01 && *seconds <= 86400);
}

static bool parse_session(const char *text, uint64_t *session)
{
    char *end;

    errno = 0;
    *session = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 && *session != 0;
}

static enum status parse_inject(char **words, int n, const struct inject_options *options,
                                struct task *task)
{
    static struct inject_command inject;
    const char *name, *wrong = inject_parse(words, n, options, &inject, &name);

    if (wrong)
        return wrong_usage(wrong, name);
    task->inject = &inject;
    task->command = inject.verb == INJECT_VERB_LIST ? &list_rules : NULL;
    return STATUS_OK;
}

/* The words after the options. */
static enum status parse_words(char **words, int n, const struct inject_options *options,
                               struct task *task)
{
    if (n == 0)
        return wrong_usage("no command given", NULL);
    if (strcmp(words[0], "inject") == 0)
        return parse_inject(words + 1, n - 1, options, task);
    if (inject_option_given(options))
        return wrong_usage("this goes with inject:", inject_option_given(options));
    if (strcmp(words[0], "kill") == 0) {
        if (n < 2)
            return wrong_usage("kill needs the number of a session", NULL);
        if (!parse_session(words[1], &task->session))
            return wrong_usage("no number of a session:", words[1]);
        n--;
        words++;
    } else {
        task->command = command_find(words[0]);
        if (!task->command)
            return wrong_usage("no such command:", words[0]);
    }
    return n > 1 ? wrong_usage("unexpected argument", words[1]) : STATUS_OK;
}

int main(int argc, char **argv)
{
    struct task task = {.path = socket_of("NPUD_ADMIN_SOCKET", NPUD_ADMIN_SOCKET_DEFAULT),
                        .interval = 0.2};
    struct inject_options options = {0};
    double seconds = 0;
    enum status status;
    int c;

    while ((c = getopt_long(argc, argv, "jbw::i:s:Vh", long_options, NULL)) != -1) {
        switch (c) {
        case 'j':
            task.json = true;
            break;
        case 'b':
            exact_sizes = true;
            break;
        case 'w':
            if (!parse_seconds(optarg, &seconds))
                return wrong_usage("--watch wants 0.01 to 86400 seconds, not", optarg);
            break;
        case 'i':
            if (!parse_seconds(optarg, &task.interval))
                return wrong_usage("--interval wants 0.01 to 86400 seconds, not", optarg);
            break;
        case 's':
            task.path = optarg;
            task.named = true;
            break;
        case 'V':
            puts("npuctl " NPUD_VERSION);
            return output_end(true);
        case 'h':
            usage(stdout);
            return output_end(true);
        default:
            if (c >= INJECT_KIND && c < INJECT_END) {
                options.value[c - INJECT_KIND] = optarg;
                break;
            }
            fputs("Try 'npuctl --help'.\n", stderr);
            return STATUS_USAGE;
        }
    }
    status = parse_words(argv + optind, argc - optind, &options, &task);
    if (status != STATUS_OK)
        return status;
    if (seconds > 0 && !task.command)
        return wrong_usage("--watch goes with reports", NULL);
    return seconds > 0 ? watch(&task, seconds) : ask(&task);
}
