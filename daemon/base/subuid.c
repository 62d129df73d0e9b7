#include "daemon/base/subuid.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/array.h"
#include "daemon/base/log.h"

#define HOPS_MAX 4 /* an owner's uid may itself be a subordinate one */

/* A decimal number up to max, until the end of the text. */
static bool read_number(const char *text, uint64_t max, uint64_t *value)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *value <= max;
}

/* By name, or by number. False: there is no such user. */
static bool find_owner(const char *name, uid_t *owner)
{
    char buf[16384];
    struct passwd pw, *found = NULL;
    uint64_t number;

    if (getpwnam_r(name, &pw, buf, sizeof(buf), &found) == 0 && found)
        *owner = pw.pw_uid;
    else if (read_number(name, UINT32_MAX - 1, &number))
        *owner = (uid_t)number;
    else
        return false;
    return true;
}

/* What is wrong with the line, or NULL. A user that does not exist owns nothing. */
static const char *read_line(char *line, struct subuid_range *range)
{
    char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;
    uint64_t n;

    if (!count)
        return "is not OWNER:FIRST:COUNT";
    *first++ = *count++ = '\0';
    if (!read_number(first, UINT32_MAX, &range->first) || !read_number(count, UINT32_MAX, &n))
        return "has numbers that are none";
    range->end = range->first + n;
    if (range->end > (uint64_t)UINT32_MAX + 1)
        return "leaves the range of uids";
    if (!find_owner(line, &range->owner))
        range->end = range->first;
    return NULL;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct subuid_range *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/*
 * Of ranges that overlap, the one that begins first has the uids: the file's administrator has
 * given them to several users, and npud cannot tell whose they are.
 */
static void cut_overlaps(struct subuids *s)
{
    uint64_t end = 0;
    size_t n = 0;

    qsort(s->range, s->n, sizeof(*s->range), compare_ranges);
    for (size_t i = 0; i < s->n; i++) {
        struct subuid_range range = s->range[i];

        if (range.first < end)
            range.first = end;
        if (range.first >= range.end)
            continue;
        end = range.end;
        s->range[n++] = range;
    }
    s->n = n;
}

static void read_ranges(struct subuids *s, FILE *f, const char *path)
{
    char line[512];
    size_t size = 0;

    for (unsigned number = 1; fgets(line, sizeof(line), f); number++) {
        struct subuid_range range, *all;
        const char *fault;

        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        fault = read_line(line, &range);
        if (fault) {
            log_warning("%s: line %u %s, and is left out", path, number, fault);
            continue;
        }
        all = array_grow(s->range, &size, s->n + 1, sizeof(*all));
        if (!all)
            break;
        s->range = all;
        s->range[s->n++] = range;
    }
    if (s->n > 0)
        cut_overlaps(s);
}

void subuids_read(struct subuids *s, const char *path)
{
    FILE *f = path[0] ? fopen(path, "re") : NULL;

    *s = (struct subuids){0};
    if (!f) {
        if (path[0] && errno != ENOENT)
            log_warning("%s: cannot be read: %m; subordinate uids count for themselves", path);
        return;
    }
    read_ranges(s, f, path);
    fclose(f);
}

void subuids_deinit(struct subuids *s)
{
    free(s->range);
    *s = (struct subuids){0};
}

static int compare_uid(const void *item, const void *key)
{
    const struct subuid_range *range = item;

    return range->end <= *(const uint64_t *)key ? -1 : 0;
}

static uid_t owner_of(const struct subuids *s, uid_t uid)
{
    const uint64_t key = uid;
    size_t i = array_lower_bound(s->range, s->n, sizeof(*s->range), &key, compare_uid);

    return i < s->n && s->range[i].first <= key ? s->range[i].owner : uid;
}

uid_t subuids_owner(const struct subuids *s, uid_t uid)
{
    uid_t owner = uid, next;

    for (int hops = 0; hops < HOPS_MAX; hops++, owner = next) {
        next = owner_of(s, owner);
        if (next == owner)
            return owner;
    }
    return uid; /* a circle of owners: the uid counts for itself */
}
