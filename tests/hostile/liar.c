#include "liar.h"

#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/chance.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct liar *liar;
static int to_shrink = -1; /* of LIE_FDS_UNSEALED */

struct answer {
    uint8_t data[PACKET_MAX + 64];
    size_t size;
    int fds[PACKET_FDS_MAX + 1];
    size_t n;
};

/* --- messages --- */

/*
 * A changed message has parts of several makers, so none of it is freed: the next one takes its
 * place.
 */
static alignas(16) char arena[1 << 18];
static size_t arena_used;

static void *arena_alloc(void *data, size_t size)
{
    void *p = arena + arena_used;

    (void)data;
    arena_used += (size + 15) & ~(size_t)15;
    return arena_used <= sizeof(arena) ? p : NULL;
}

static void arena_free(void *data, void *p)
{
    (void)data;
    (void)p;
}

static Npud__Reply *unpack_reply(const uint8_t *bytes, size_t size)
{
    static ProtobufCAllocator allocator = {.alloc = arena_alloc, .free = arena_free};

    arena_used = 0;
    return npud__reply__unpack(&allocator, size, bytes);
}

/* --- fields --- */

/* What a number becomes: sums are with what it was. */
static const struct {
    bool add;
    uint64_t value;
} numbers[] = {
    {false, 0},          {false, 1},
    {true, 1},           {true, UINT64_MAX},
    {false, 0x1000},     {false, 0x10000},
    {false, 0x7fffffff}, {false, 0x80000000},
    {false, UINT32_MAX}, {false, UINT64_C(1) << 40},
    {false, UINT64_MAX},
};

static uint64_t change_number(uint64_t was, unsigned how)
{
    return numbers[how].add ? was + numbers[how].value : numbers[how].value;
}

/* `how` counts through the changes of a field; false: it has no so many. */
static bool change_single(const ProtobufCFieldDescriptor *f, void *at, unsigned how)
{
    static uint8_t much[400];
    static char words[400];

    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT64:
        if (how < COUNT(numbers))
            *(uint64_t *)at = change_number(*(uint64_t *)at, how);
        return how < COUNT(numbers);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        if (how < COUNT(numbers))
            *(uint32_t *)at = (uint32_t)change_number(*(uint32_t *)at, how);
        return how < COUNT(numbers);
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = !*(protobuf_c_boolean *)at;
        return how == 0;
    case PROTOBUF_C_TYPE_STRING:
        memset(words, 'w', sizeof(words) - 1);
        *(char **)at = how == 0 ? "" : words;
        return how < 2;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){how == 0 ? 0 : sizeof(much), much};
        return how < 2;
    default:
        return false;
    }
}

static bool change_field(const ProtobufCFieldDescriptor *f, ProtobufCMessage *message, unsigned how)
{
    size_t *n = (size_t *)((char *)message + f->quantifier_offset);
    ProtobufCMessage ***list = (ProtobufCMessage ***)((char *)message + f->offset);
    static ProtobufCMessage *longer[40];

    if (f->label != PROTOBUF_C_LABEL_REPEATED)
        return change_single(f, (char *)message + f->offset, how);
    if (f->type != PROTOBUF_C_TYPE_MESSAGE || *n == 0)
        return false;
    if (how == 0) {
        *n = 0;
        return true;
    }
    if (how == 1) { /* the first one many times */
        for (size_t i = 0; i < COUNT(longer); i++)
            longer[i] = (*list)[0];
        *list = longer;
        *n = COUNT(longer);
        return true;
    }
    for (unsigned i = 0; i < (*list)[0]->descriptor->n_fields; i++)
        if ((how - 2) / COUNT(numbers) == i)
            return change_single(&(*list)[0]->descriptor->fields[i],
                                 (char *)(*list)[0] + (*list)[0]->descriptor->fields[i].offset,
                                 (how - 2) % COUNT(numbers));
    return false;
}

#define HOWS (2 + 4 * COUNT(numbers)) /* of one field, at most */

static ProtobufCMessage *body_of(Npud__Reply *reply)
{
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(
        &npud__reply__descriptor, (unsigned)reply->body_case);

    return f ? *(ProtobufCMessage **)((char *)reply + f->offset) : NULL;
}

static bool change_nth(Npud__Reply *reply, unsigned nth)
{
    ProtobufCMessage *body = body_of(reply);
    unsigned field = nth / HOWS;

    if (!body || field >= body->descriptor->n_fields)
        return false;
    if (liar)
        snprintf(liar->what, sizeof(liar->what), "field %s, change %u",
                 body->descriptor->fields[field].name, nth % (unsigned)HOWS);
    return change_field(&body->descriptor->fields[field], body, nth % HOWS);
}

/* --- descriptors --- */

static int sealed_memfd(off_t size)
{
    int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (ftruncate(fd, size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        abort();
    return fd;
}

static int full_pipe(void)
{
    static const char page[4096];
    int fd[2];

    if (pipe2(fd, O_NONBLOCK | O_CLOEXEC) < 0)
        abort();
    while (write(fd[1], page, sizeof(page)) > 0)
        ;
    fcntl(fd[1], F_SETFL, 0);
    dup2(fd[0], 1000); /* without a reader a writer would get an error */
    close(fd[0]);
    return fd[1];
}

static int full_eventfd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    eventfd_write(fd, UINT64_MAX - 1);
    return fd;
}

static int reopen_memfd(int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int unsealed_memfd(int like)
{
    struct stat st;
    int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fstat(like, &st) < 0 || ftruncate(fd, st.st_size) < 0)
        abort();
    if (to_shrink >= 0)
        close(to_shrink);
    to_shrink = dup(fd);
    return fd;
}

static int other_descriptor(enum lie lie, int fd)
{
    switch (lie) {
    case LIE_FDS_SHORT:
        return sealed_memfd(4096);
    case LIE_FDS_EMPTY:
        return sealed_memfd(0);
    case LIE_FDS_UNSEALED:
        return unsealed_memfd(fd);
    case LIE_FDS_READ_ONLY:
        return reopen_memfd(fd);
    case LIE_FDS_PIPE:
        return full_pipe();
    case LIE_FDS_BLOCKING:
        return full_eventfd();
    default:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    }
}

static bool change_descriptors(struct answer *a, enum lie lie)
{
    if (lie == LIE_MORE_FDS) {
        a->fds[a->n++] = open("/dev/null", O_RDWR | O_CLOEXEC);
        return true;
    }
    if (a->n == 0 || (lie == LIE_FDS_SWAPPED && a->n < 2))
        return false;
    if (lie == LIE_FDS_SWAPPED) {
        int first = a->fds[0];

        a->fds[0] = a->fds[1];
        a->fds[1] = first;
        return true;
    }
    if (lie == LIE_NO_FDS || lie == LIE_FEWER_FDS) {
        do
            close(a->fds[--a->n]);
        while (lie == LIE_NO_FDS && a->n > 0);
        return true;
    }
    for (size_t i = 0; i < a->n; i++) {
        int fd = other_descriptor(lie, a->fds[i]);

        if (fd < 0)
            return false;
        close(a->fds[i]);
        a->fds[i] = fd;
    }
    return true;
}

/* --- a newer npud --- */

static void pack_answer(struct answer *a, Npud__Reply *reply)
{
    if (npud__reply__get_packed_size(reply) <= sizeof(a->data))
        a->size = npud__reply__pack(reply, a->data);
}

static void add_field(ProtobufCMessage *message, ProtobufCMessageUnknownField *field)
{
    static uint8_t words[] = "\005more!";

    *field = (ProtobufCMessageUnknownField){
        .tag = 2000, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = 6, .data = words};
    message->n_unknown_fields = 1;
    message->unknown_fields = field;
}

static void say_more(struct answer *a)
{
    Npud__Reply *reply = unpack_reply(a->data, a->size);
    ProtobufCMessage *body = body_of(reply);
    ProtobufCMessageUnknownField of_reply, of_body;

    add_field(&reply->base, &of_reply);
    if (body)
        add_field(body, &of_body);
    pack_answer(a, reply);
}

/* --- lies --- */

static bool change_message(struct answer *a, uint32_t lie)
{
    Npud__Reply *reply = unpack_reply(a->data, a->size);
    Npud__MemInfoReply memory = NPUD__MEM_INFO_REPLY__INIT;
    Npud__NotifyReply notify = NPUD__NOTIFY_REPLY__INIT;
    bool had = reply->body_case != NPUD__REPLY__BODY__NOT_SET;

    switch (lie) {
    case LIE_ID:
        reply->id++;
        break;
    case LIE_NO_BODY:
        if (!had)
            return false;
        reply->body_case = NPUD__REPLY__BODY__NOT_SET;
        break;
    case LIE_OTHER_BODY:
        if (reply->body_case == NPUD__REPLY__BODY_MEM_INFO) {
            reply->body_case = NPUD__REPLY__BODY_NOTIFY;
            reply->notify = &notify;
        } else {
            reply->body_case = NPUD__REPLY__BODY_MEM_INFO;
            reply->mem_info = &memory;
        }
        break;
    case LIE_ODD_ERROR:
        reply->error = -17;
        reply->body_case = NPUD__REPLY__BODY__NOT_SET;
        break;
    case LIE_INTERRUPT:
        reply->error = 599001; /* ACLNPUD_ERROR_INTERRUPTED */
        reply->body_case = NPUD__REPLY__BODY__NOT_SET;
        break;
    case LIE_ERROR:
        reply->error = 207005;
        reply->body_case = NPUD__REPLY__BODY__NOT_SET;
        break;
    default:
        if (!change_nth(reply, lie - LIE_FIELDS))
            return false;
    }
    pack_answer(a, reply);
    return true;
}

/* Then it is none to this request, and the client waits for one for ever. */
static bool is_older(const struct answer *a, uint64_t id)
{
    Npud__Reply *reply = unpack_reply(a->data, a->size);

    return reply && reply->id != 0 && reply->id < id;
}

static void change_bits(struct answer *a)
{
    uint64_t seed = liar->seed, id = unpack_reply(a->data, a->size)->id;
    struct answer was = *a;

    do {
        *a = was;
        for (unsigned n = 1 + draw_below(&seed, 3); n > 0; n--)
            a->data[draw_below(&seed, (unsigned)a->size)] ^= (uint8_t)(1u << draw_below(&seed, 8));
    } while (is_older(a, id));
}

static bool change_bytes(struct answer *a, uint32_t lie)
{

    if (lie == LIE_TOO_LONG) {
        a->size = PACKET_MAX + 1;
    } else if (lie == LIE_CUT) {
        a->size = (a->size + 1) / 2;
    } else if (lie == LIE_GARBAGE) {
        memset(a->data, 0xff, a->size);
    } else {
        change_bits(a);
    }
    return true;
}

static bool tell_lie(struct answer *a, uint32_t lie)
{
    snprintf(liar->what, sizeof(liar->what), "lie %u", lie);
    switch (lie) {
    case LIE_NONE:
    case LIE_END:
        return true;
    case LIE_CUT:
    case LIE_GARBAGE:
    case LIE_TOO_LONG:
    case LIE_BITS:
        return change_bytes(a, lie);
    case LIE_NO_FDS:
    case LIE_FEWER_FDS:
    case LIE_MORE_FDS:
        return change_descriptors(a, lie);
    default:
        return lie >= LIE_FDS_SWAPPED && lie <= LIE_FDS_BLOCKING ? change_descriptors(a, lie)
                                                                 : change_message(a, lie);
    }
}

/* Of numbers: 1, which may be right, and the largest. */
bool liar_is_gross(uint32_t lie)
{
    unsigned how = (lie - LIE_FIELDS) % HOWS;

    if (lie < LIE_FIELDS)
        return lie == LIE_NO_BODY || lie == LIE_FDS_SHORT || lie == LIE_FDS_UNSEALED;
    return how == 1 || how == COUNT(numbers) - 1;
}

static uint32_t last_request;

static bool has_field(const struct liar_answer *a, unsigned nth)
{
    Npud__Reply *reply = unpack_reply(a->data, a->size);

    return reply && change_nth(reply, nth);
}

bool liar_can_tell(const struct liar *shared, uint32_t answer, uint32_t lie)
{
    const struct liar_answer *a = &shared->honest[answer];

    if (answer >= LIAR_ANSWERS || a->size == 0)
        return false;
    if (lie >= LIE_FIELDS)
        return has_field(a, lie - LIE_FIELDS);
    if (lie == LIE_NO_FDS || lie == LIE_FEWER_FDS || (lie >= LIE_FDS_SWAPPED && lie < LIE_BITS))
        return a->n_fds > (lie == LIE_FDS_SWAPPED);
    return true;
}

/* --- between the two --- */

static void keep_answer(uint32_t number, const struct packet *packet)
{
    struct liar_answer *a = &liar->honest[number];

    if (packet->size > sizeof(a->data))
        return;
    a->size = packet->size;
    a->n_fds = packet->n_fds;
    memcpy(a->data, packet->data, packet->size);
}

/* False: the connection ends. */
static bool pass_request(int client, int npud)
{
    struct packet packet;
    Npud__Request *request;
    int r;

    if (packet_recv(client, &packet, 0) <= 0)
        return false;
    request = npud__request__unpack(NULL, packet.size, packet.data);
    last_request = request ? (uint32_t)request->body_case : 0;
    if (last_request >= LIAR_KINDS)
        abort();
    npud__request__free_unpacked(request, NULL);
    r = packet_send(npud, packet.data, packet.size, packet.fds, packet.n_fds, 0);
    packet_deinit(&packet);
    if (to_shrink >= 0 && ftruncate(to_shrink, 0) < 0)
        abort();
    return r == 0;
}

static bool pass_answer(int npud, int client)
{
    static struct answer a;
    struct packet packet;
    uint32_t before;
    bool ends = false;
    int r;

    if (packet_recv(npud, &packet, 0) <= 0)
        return false;
    memcpy(a.data, packet.data, packet.size);
    a.size = packet.size;
    a.n = packet.n_fds;
    memcpy(a.fds, packet.fds, sizeof(packet.fds));
    if (liar->newer)
        say_more(&a);
    before = liar->seen[last_request]++;
    if (liar->lie == LIE_NONE && before < LIAR_TIMES)
        keep_answer(last_request * LIAR_TIMES + before, &packet);
    if (liar->lie != LIE_NONE && before < LIAR_TIMES &&
        liar->answer == last_request * LIAR_TIMES + before) {
        liar->told = tell_lie(&a, liar->lie);
        ends = liar->told && liar->lie == LIE_END;
    }
    r = ends ? 0 : packet_send(client, a.data, a.size, a.fds, a.n, 0);
    for (uint32_t i = 0; r == 0 && !ends && i < liar->repeat; i++)
        r = packet_send(client, a.data, a.size, a.fds, a.n, 0);
    for (size_t i = 0; i < a.n; i++)
        close(a.fds[i]);
    return r == 0 && !ends;
}

static int connect_npud(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        abort();
    return fd;
}

static void serve_client(int client, int npud)
{
    struct pollfd p[2] = {{.fd = client, .events = POLLIN}, {.fd = npud, .events = POLLIN}};
    bool goes_on = liar->unanswered == 0 || liar->unanswered-- == 0;

    while (goes_on && poll(p, 2, -1) > 0) {
        if (p[0].revents)
            goes_on = pass_request(client, npud);
        else if (p[1].revents)
            goes_on = pass_answer(npud, client);
    }
    close(client);
    close(npud);
    if (to_shrink >= 0)
        close(to_shrink);
    to_shrink = -1;
}

void liar_serve(int listener, const char *npud, struct liar *shared)
{
    liar = shared;
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (client < 0)
            abort();
        serve_client(client, connect_npud(npud));
    }
}
