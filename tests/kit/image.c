/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kit/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"

void kit_image_load(struct kit_image *i, const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        unsigned room = 0;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                kit_die("%s: %s", path, strerror(errno));
        *i = (struct kit_image){ .size = (uint64_t) st.st_size };
        if (i->size > 0) {
                i->bytes = mmap(NULL, i->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
                if (i->bytes == MAP_FAILED)
                        kit_die("%s: cannot be mapped: %s", path, strerror(errno));
        }
        for (off_t at = 0;;) { /* ends: at grows up to the end of the file */
                off_t from = lseek(fd, at, SEEK_DATA), to;

                if (from < 0)
                        break;
                to = lseek(fd, from, SEEK_HOLE);
                if (to < 0)
                        to = st.st_size;
                if (i->n_data == room) {
                        room = room ? room * 2 : 64;
                        i->data = realloc(i->data, room * sizeof(i->data[0]));
                        if (!i->data)
                                kit_die("memory exhausted");
                }
                i->data[i->n_data++] =
                        (struct kit_range){ .at = (uint64_t) from, .len = (uint64_t) (to - from) };
                at = to;
        }
        (void) close(fd);
}

void kit_image_free(struct kit_image *i)
{
        if (i->bytes)
                (void) munmap(i->bytes, i->size);
        free(i->data);
        *i = (struct kit_image){ 0 };
}

void kit_image_lay(const struct kit_image *i, struct blkup_block *memory, uint64_t size)
{
        blkup_block_memory_reset(memory, size);
        for (unsigned k = 0; k < i->n_data && i->data[k].at < size; k++) {
                uint64_t len = blkup_min(i->data[k].len, size - i->data[k].at);

                if (blkup_block_memory_add(memory, i->data[k].at, i->bytes + i->data[k].at, (size_t) len) < 0)
                        kit_die("memory exhausted");
        }
}
