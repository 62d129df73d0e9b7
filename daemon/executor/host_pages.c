#include "daemon/executor/host_pages.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/library.h"

/* One for all: telling is done once for each file. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_pages *known; /* by the library */

int32_t host_pages_map(struct host_pages *pages, int fd, uint64_t size)
{
    struct stat st;
    void *map;

    if (fstat(fd, &st) < 0 || size == 0 || size > (uint64_t)st.st_size)
        return library_refuses("pages of the host: the file is smaller than what was said");
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        vendor_set_text("pages of the host: %s", strerror(errno));
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    *pages = (struct host_pages){.map = map, .size = size};
    return 0;
}

/* Under the lock. A device that has ended has forgotten them already. */
static void forget(struct host_pages *pages)
{
    DL_DELETE(known, pages);
    if (library.vendor->host_detach && library_enter_to_free(pages->device))
        library.vendor->host_detach(library.open, pages->map);
    atomic_store(&pages->known, HOST_PAGES_NEW);
}

void host_pages_unmap(struct host_pages *pages)
{
    pthread_mutex_lock(&lock);
    if (atomic_load(&pages->known) == HOST_PAGES_KNOWN)
        forget(pages);
    pthread_mutex_unlock(&lock);
    munmap(pages->map, pages->size);
}

/* Under the lock. */
static void tell(struct host_pages *pages, uint32_t device)
{
    if (!library.vendor->host_attach ||
        library.vendor->host_attach(library.open, pages->map, pages->size) != 0) {
        atomic_store(&pages->known, HOST_PAGES_REFUSED);
        return;
    }
    pages->device = device;
    DL_APPEND(known, pages);
    atomic_store(&pages->known, HOST_PAGES_KNOWN);
}

void host_pages_tell(struct host_pages *pages, uint32_t device)
{
    if (atomic_load_explicit(&pages->known, memory_order_acquire) != HOST_PAGES_NEW)
        return;
    pthread_mutex_lock(&lock);
    if (atomic_load(&pages->known) == HOST_PAGES_NEW)
        tell(pages, device);
    pthread_mutex_unlock(&lock);
}

void host_pages_forget(uint32_t device)
{
    struct host_pages *pages, *next;

    pthread_mutex_lock(&lock);
    DL_FOREACH_SAFE (known, pages, next)
        if (pages->device == device)
            forget(pages);
    pthread_mutex_unlock(&lock);
}
