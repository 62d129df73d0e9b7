#include "client/tools/npuctl/sort.h"

#include <stdlib.h>
#include <string.h>

#define COMPARE(type, a, b)                                                                        \
    ((*(const type *)(a) > *(const type *)(b)) - (*(const type *)(a) < *(const type *)(b)))

static const char *read_text(const void *p)
{
    const char *text = *(char *const *)p;

    return text ? text : "";
}

static int compare_fields(const ProtobufCFieldDescriptor *field, const void *a, const void *b)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return strverscmp(read_text(a), read_text(b));
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

    for (unsigned c = 0; order == 0 && c < *(const unsigned *)n_fields; c++) {
        const ProtobufCFieldDescriptor *field = &a->descriptor->fields[c];

        order =
            compare_fields(field, (const char *)a + field->offset, (const char *)b + field->offset);
    }
    return order;
}

void sort_rows(ProtobufCMessage **row, size_t n, unsigned n_fields)
{
    if (n > 1)
        qsort_r(row, n, sizeof(ProtobufCMessage *), compare_rows, &n_fields);
}
