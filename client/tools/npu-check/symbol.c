#include "client/tools/npu-check/symbol.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

#include "client/tools/npu-check/need.h"

/* Where files are put in a Dwfl, each of which has one file: anything but 0 serves. */
#define OBJECT_BASE ((GElf_Addr)1 << 20)
/* Of inlined functions at one address: hostile DWARF has more. */
#define INLINED_MAX 64

enum object_role {
    OBJECT_PROGRAM,
    OBJECT_LIBRARY, /* libaclclient */
    OBJECT_PYTHON   /* the extension module `acl`: neither the library nor the program */
};

/* A mapped file, once for all processes. */
struct object {
    char *path;
    enum object_role role;
    Dwfl *dwfl; /* NULL: it cannot be read */
    Dwfl_Module *module;
    GElf_Addr bias;
    UT_hash_handle hh;
};

struct text {
    UT_hash_handle hh;
    char s[];
};

struct known_place {
    bool known; /* it was asked for */
    struct place_frames place;
};

struct symbols {
    const struct world *world;
    struct object *objects;
    struct known_place *places; /* of world->places */
    struct text *texts;
    struct frame *room; /* of a place that is looked up */
    size_t n_room, size_room;
};

static const struct place_frames place_nothing;

static char *no_debug_path;

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .debuginfo_path = &no_debug_path, /* NULL: the default */
};

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Texts live as long as the symbols: frames refer to them. */
static const char *text_keep(struct symbols *s, const char *text, size_t n)
{
    struct text *t;

    HASH_FIND(hh, s->texts, text, n, t);
    if (t)
        return t->s;
    t = need_zeroed(1, sizeof(*t) + n + 1);
    memcpy(t->s, text, n);
    HASH_ADD_KEYPTR(hh, s->texts, t->s, n, t);
    return t->s;
}

static const char *text_keep_string(struct symbols *s, const char *text)
{
    return text ? text_keep(s, text, strlen(text)) : NULL;
}

/* Symbols carry versions (name@@VERSION) and parts of functions (name.cold). */
static const char *symbol_keep(struct symbols *s, const char *name)
{
    size_t n = name ? strcspn(name, "@.") : 0;

    return n ? text_keep(s, name, n) : NULL;
}

/* --- files --- */

/* By its real name: programs may load the library by another one. */
static enum object_role object_find_role(const char *path)
{
    char real[PATH_MAX];
    const char *name = path_name(realpath(path, real) ? real : path);

    if (strncmp(name, "libaclclient.so", strlen("libaclclient.so")) == 0)
        return OBJECT_LIBRARY;
    if (strcmp(name, "acl.so") == 0 || strncmp(name, "acl.cpython-", strlen("acl.cpython-")) == 0 ||
        strncmp(name, "acl.abi3.", strlen("acl.abi3.")) == 0)
        return OBJECT_PYTHON;
    return OBJECT_PROGRAM;
}

/* -1: no regular file. A path is what the program says: it may name a FIFO or a device. */
static int object_open_file(const char *path)
{
    struct stat st;
    int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void object_read(struct object *o)
{
    int fd = object_open_file(o->path);

    o->dwfl = fd < 0 ? NULL : dwfl_begin(&callbacks);
    if (o->dwfl) {
        dwfl_report_begin(o->dwfl);
        o->module = dwfl_report_elf(o->dwfl, o->path, o->path, fd, OBJECT_BASE, true);
        if (o->module)
            fd = -1; /* it is the module's now */
        dwfl_report_end(o->dwfl, NULL, NULL);
    }
    if (o->module && !dwfl_module_getelf(o->module, &o->bias))
        o->module = NULL;
    if (fd >= 0)
        close(fd);
}

static struct object *object_find(struct symbols *s, const char *path)
{
    struct object *o;

    HASH_FIND_STR(s->objects, path, o);
    if (o)
        return o;
    o = need_zeroed(1, sizeof(*o));
    o->path = strdup(path);
    if (!o->path)
        err(NEED_EXIT, "memory");
    o->role = object_find_role(path);
    object_read(o);
    HASH_ADD_KEYPTR(hh, s->objects, o->path, strlen(o->path), o);
    return o;
}

/* The last one that covers the address: a file may have been closed and another one be there. */
static const struct world_module *module_find(const struct world_process *p, uint64_t pc)
{
    for (size_t i = p->n_modules; i-- > 0;)
        if (pc >= p->modules[i].start && pc < p->modules[i].end && p->modules[i].path)
            return &p->modules[i];
    return NULL;
}

/* --- functions and lines --- */

static const char *file_keep(struct symbols *s, const char *directory, const char *file)
{
    char path[PATH_MAX];

    if (!file || file[0] == '/' || !directory)
        return text_keep_string(s, file);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, file) >= sizeof(path))
        return text_keep_string(s, file);
    return text_keep_string(s, path);
}

static struct frame *frame_add(struct symbols *s, const struct frame *f)
{
    s->room = need_room(s->room, s->n_room, &s->size_room, sizeof(*s->room));
    s->room[s->n_room] = *f;
    return &s->room[s->n_room++];
}

static bool die_is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);

    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

/* The line at which the inlined function was called. */
static void frame_set_call(struct symbols *s, struct frame *f, Dwarf_Die *cu, Dwarf_Die *inlined)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file = 0, line = 0;
    Dwarf_Files *files;
    size_t n;
    const char *directory = NULL;

    f->file = NULL;
    f->line = 0;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) != 0 ||
        dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) != 0 ||
        dwarf_getsrcfiles(cu, &files, &n) != 0 || file >= n || line > UINT32_MAX)
        return;
    directory = dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &attribute));
    f->file = file_keep(s, directory, dwarf_filesrc(files, file, NULL, NULL));
    f->line = f->file ? (uint32_t)line : 0;
}

/* The function, and those into which it was inlined. */
static void functions_add(struct symbols *s, struct frame f, Dwarf_Die *cu, Dwarf_Die *innermost)
{
    Dwarf_Die *scopes = NULL;
    int n = dwarf_getscopes_die(innermost, &scopes), inlined = 0;

    for (int i = 0; i < n && inlined < INLINED_MAX; i++) {
        if (!die_is_function(&scopes[i]))
            continue;
        f.function = text_keep_string(s, dwarf_diename(&scopes[i]));
        frame_add(s, &f);
        if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram)
            break;
        inlined++;
        frame_set_call(s, &f, cu, &scopes[i]);
    }
    free(scopes);
}

/* False: the file does not tell. */
static bool inlined_add(struct symbols *s, const struct object *o, const struct frame *f,
                        GElf_Addr address)
{
    size_t before = s->n_room;
    Dwarf_Addr bias = 0;
    Dwarf_Die *cu = dwfl_module_addrdie(o->module, address, &bias), *scopes = NULL;
    int n = cu ? dwarf_getscopes(cu, address - bias, &scopes) : 0, i = 0;

    while (i < n && !die_is_function(&scopes[i]))
        i++;
    if (i < n)
        functions_add(s, *f, cu, &scopes[i]);
    free(scopes);
    return s->n_room > before;
}

static void line_find(struct symbols *s, const struct object *o, struct frame *f, GElf_Addr address)
{
    Dwfl_Line *line = dwfl_module_getsrc(o->module, address);
    int number = 0;
    const char *file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

    if (!file || number <= 0)
        return;
    f->file = file_keep(s, dwfl_line_comp_dir(line), file);
    f->line = (uint32_t)number;
}

/* Of a return address: the call is before it. */
static void frames_add(struct symbols *s, const struct object *o, const struct world_module *m,
                       uint64_t pc)
{
    struct frame f = {.object = o->path, .offset = pc - m->bias};
    GElf_Addr address = pc - 1 - m->bias + o->bias;

    if (o->module) {
        line_find(s, o, &f, address);
        if (inlined_add(s, o, &f, address))
            return;
        f.function = symbol_keep(s, dwfl_module_addrname(o->module, address));
    }
    frame_add(s, &f);
}

/* --- places --- */

/* What the file calls a library may be none, and its symbols anything. */
static bool is_identifier(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] ==
           '\0';
}

/* The public function is the outermost frame of the library. The program knows its symbol. */
static void call_find(struct symbols *s, const struct object *o, const struct world_module *m,
                      uint64_t pc, struct place_frames *place)
{
    const char *name = NULL;

    if (o->module)
        name = symbol_keep(s, dwfl_module_addrname(o->module, pc - 1 - m->bias + o->bias));
    if (name && is_identifier(name))
        place->call = name;
}

static void stack_look_up(struct symbols *s, const struct world_place *p,
                          struct place_frames *place)
{
    const struct world_process *process = &s->world->processes[p->process];
    bool in_library = true;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct world_module *m = module_find(process, p->frames[i] - 1);
        struct object *o = m ? object_find(s, m->path) : NULL;

        if (in_library && o && o->role == OBJECT_LIBRARY) {
            call_find(s, o, m, p->frames[i], place);
            continue;
        }
        in_library = in_library && o && o->role == OBJECT_PYTHON;
        if (!o)
            frame_add(s, &(struct frame){.offset = p->frames[i]});
        else if (o->role == OBJECT_PROGRAM)
            frames_add(s, o, m, p->frames[i]);
    }
}

static void place_look_up(struct symbols *s, const struct world_place *p,
                          struct place_frames *place)
{
    s->n_room = 0;
    if (p->process < s->world->n_processes)
        stack_look_up(s, p, place);
    if (p->source_file) { /* the frames are those of its interpreter */
        s->n_room = 0;
        frame_add(s, &(struct frame){.function = text_keep_string(s, p->source_function),
                                     .file = text_keep_string(s, p->source_file),
                                     .line = p->source_line});
    }
    place->n = s->n_room;
    place->frames = need_array(NULL, place->n, sizeof(*place->frames));
    if (place->n)
        memcpy(place->frames, s->room, place->n * sizeof(*place->frames));
}

const struct place_frames *symbols_find(struct symbols *s, uint32_t place)
{
    if (place >= s->world->n_places)
        return &place_nothing;
    if (!s->places[place].known)
        place_look_up(s, &s->world->places[place], &s->places[place].place);
    s->places[place].known = true;
    return &s->places[place].place;
}

struct symbols *symbols_make(const struct world *w)
{
    struct symbols *s = need_zeroed(1, sizeof(*s));

    /* libdwfl would ask these servers. */
    unsetenv("DEBUGINFOD_URLS");
    s->world = w;
    s->places = need_zeroed(w->n_places, sizeof(*s->places));
    return s;
}

static void objects_free(struct symbols *s)
{
    struct object *o = s->objects, *next;

    HASH_CLEAR(hh, s->objects);
    for (; o; o = next) {
        next = o->hh.next;
        if (o->dwfl)
            dwfl_end(o->dwfl);
        free(o->path);
        free(o);
    }
}

static void texts_free(struct symbols *s)
{
    struct text *t = s->texts, *next;

    HASH_CLEAR(hh, s->texts);
    for (; t; t = next) {
        next = t->hh.next;
        free(t);
    }
}

void symbols_free(struct symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->world->n_places; i++)
        free(s->places[i].place.frames);
    objects_free(s);
    texts_free(s);
    free(s->places);
    free(s->room);
    free(s);
}
