#include "encode.h"

#define MANY 300 /* more than a request may repeat anything */

static void put_bytes(struct output *out, const void *data, size_t size)
{
    if (size == 0 || size > sizeof(out->data) - out->size)
        return;
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put_varint(struct output *out, uint64_t value)
{
    uint8_t byte;

    for (; value > 0x7f; value >>= 7) {
        byte = (uint8_t)(value | 0x80);
        put_bytes(out, &byte, 1);
    }
    byte = (uint8_t)value;
    put_bytes(out, &byte, 1);
}

void put_varint_field(struct output *out, uint32_t number, uint64_t value)
{
    put_varint(out, number << 3);
    put_varint(out, value);
}

void put_bytes_field(struct output *out, uint32_t number, const void *data, size_t size)
{
    put_varint(out, number << 3 | 2);
    put_varint(out, size);
    put_bytes(out, data, size);
}

static void encode_field(struct output *out, const ProtobufCFieldDescriptor *field,
                         struct input *in)
{
    struct output inner;
    const uint8_t *text;
    size_t size;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        text = take_bytes(in, take_u8(in), &size);
        put_bytes_field(out, field->id, text, size);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        output_begin(&inner);
        encode_message(&inner, field->descriptor, in);
        put_bytes_field(out, field->id, inner.data, inner.size);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        break;
    default:
        put_varint_field(out, field->id, take_number(in));
    }
}

void encode_message(struct output *out, const ProtobufCMessageDescriptor *type, struct input *in)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        unsigned n = 1;

        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            n = take_u8(in);
        if (n == UINT8_MAX)
            n = MANY;
        while (n-- > 0)
            encode_field(out, field, in);
    }
}
