#include "client/tools/npuctl/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/text.h"
#include "proto/wire/npud.pb-c.h"

#define FIELD_FOR_PROGRAMS 100 /* numbers from here on: see npud.proto */

static const void *find_field(const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field)
{
    return (const char *)message + field->offset;
}

unsigned field_count_shown(const ProtobufCMessageDescriptor *type)
{
    unsigned n = 0;

    while (n < type->n_fields && type->fields[n].id < FIELD_FOR_PROGRAMS)
        n++;
    return n;
}

bool field_is_text(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_STRING;
}

const char *field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *text = *(char *const *)find_field(message, field);

    return text ? text : "";
}

void field_format(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, char *buf,
                  size_t size)
{
    const void *p = find_field(message, field);

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        snprintf(buf, size, "%" PRId32, *(const int32_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        snprintf(buf, size, "%" PRIu32, *(const uint32_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT64:
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
    default:
        snprintf(buf, size, "null"); /* no report has them; text is not printed here */
        break;
    }
}

/* Programs choose it: everything else in a table is said by npud. */
static bool field_is_chosen(const ProtobufCFieldDescriptor *field)
{
    return strcmp(field->name, "program") == 0 || strcmp(field->name, "name") == 0;
}

/* Not memory_exports, which are counted. A share is of the memory of a device. */
bool field_limit_is_memory(const char *resource)
{
    static const char share[] = "device_share.";
    const char *last = strrchr(resource, '_');

    return (last && strcmp(last, "_memory") == 0) ||
           strncmp(resource, share, sizeof(share) - 1) == 0;
}

static bool field_is_memory_limit(const ProtobufCMessage *message,
                                  const ProtobufCFieldDescriptor *field)
{
    const char *resource;

    if (message->descriptor != &npud__limit_row__descriptor || field_is_text(field) ||
        strcmp(field->name, "uid") == 0)
        return false;
    resource = ((const Npud__LimitRow *)message)->resource;
    return resource && field_limit_is_memory(resource);
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
    return field_is_memory_limit(message, field);
}

/* Three digits or four, and the unit: as exact as one can take in at a glance. */
static void format_size(uint64_t bytes, char *buf, size_t size)
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

void field_show_exact_sizes(void)
{
    exact_sizes = true;
}

char *field_print(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                  int *width)
{
    char buf[32];

    if (field_is_text(field))
        return text_escape(field_text(message, field), field_is_chosen(field), width);
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        strcpy(buf, *(const protobuf_c_boolean *)find_field(message, field) ? "yes" : "no");
    else if (!exact_sizes && field_is_size(message, field))
        format_size(*(const uint64_t *)find_field(message, field), buf, sizeof(buf));
    else
        field_format(message, field, buf, sizeof(buf));
    return text_escape(buf, false, width);
}

char *field_heading(const ProtobufCFieldDescriptor *field, bool upper)
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
