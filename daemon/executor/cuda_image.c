#include "daemon/executor/cuda_image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC 0xba55ed50u

struct fatbin {
    uint32_t magic;
    uint16_t version;
    uint16_t header; /* bytes of this */
    uint64_t size;   /* behind it */
};

static bool lies_within(uint64_t offset, uint64_t n, uint64_t each, uint64_t size)
{
    return n == 0 || each == 0 || (offset <= size && n <= (size - offset) / each);
}

/* The tables that say where all the rest is, and the sections. */
static bool is_whole_elf(const unsigned char *file, uint64_t size)
{
    Elf64_Ehdr head;
    Elf64_Shdr section;

    if (size < sizeof(head))
        return false;
    memcpy(&head, file, sizeof(head));
    if (head.e_ident[EI_CLASS] != ELFCLASS64 ||
        (head.e_shnum && head.e_shentsize < sizeof(section)))
        return false;
    if (!lies_within(head.e_shoff, head.e_shnum, head.e_shentsize, size) ||
        !lies_within(head.e_phoff, head.e_phnum, head.e_phentsize, size))
        return false;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&section, file + head.e_shoff + (uint64_t)i * head.e_shentsize, sizeof(section));
        if (section.sh_type != SHT_NOBITS &&
            !lies_within(section.sh_offset, section.sh_size, 1, size))
            return false;
    }
    return true;
}

static bool is_whole_fatbin(const unsigned char *file, uint64_t size)
{
    struct fatbin head;

    if (size < sizeof(head))
        return false;
    memcpy(&head, file, sizeof(head));
    return head.header >= sizeof(head) && head.header <= size && head.size <= size - head.header;
}

static bool is_text(const unsigned char *file, uint64_t size)
{
    while (size > 0 && file[size - 1] == '\0')
        size--;
    return size > 0 && !memchr(file, '\0', size);
}

static bool can_be_loaded(const unsigned char *file, uint64_t size)
{
    static const uint32_t fatbin = FATBIN_MAGIC;

    if (size >= SELFMAG && memcmp(file, ELFMAG, SELFMAG) == 0)
        return is_whole_elf(file, size);
    if (size >= sizeof(fatbin) && memcmp(file, &fatbin, sizeof(fatbin)) == 0)
        return is_whole_fatbin(file, size);
    return is_text(file, size);
}

void *cuda_image_copy(const void *file, uint64_t size)
{
    char *image;

    if (size >= SIZE_MAX || !can_be_loaded(file, size))
        return NULL;
    image = malloc(size + 1);
    if (image) {
        memcpy(image, file, size);
        image[size] = '\0';
    }
    return image;
}
