/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stands between the checks and blkup_view_get() (the linker's --wrap): the bytes that a check asked for come
 * in a buffer of their own, without a byte more. And before blkup_view_work(), which can be made to say no.
 */
#include "kit/kit.h"

#include <stdlib.h>
#include <string.h>

/* Tables of some MiB (the array of a GPT) are handed out as they are: copying them would be the test's main
 * work. */
#define COPY_MAX 65536

/* The linker's names, reserved or not. */
enum blkup_outcome __real_blkup_view_get(struct blkup_view *v, uint64_t at, uint64_t len,
                                         struct blkup_bytes *ret);
enum blkup_outcome __wrap_blkup_view_get(struct blkup_view *v, uint64_t at, uint64_t len,
                                         struct blkup_bytes *ret);

static void **copies;
static size_t n_copies, room;

static bool is_off;

void kit_view_guard(bool on)
{
        is_off = !on;
}

static struct kit_range *recorded;
static unsigned *n_recorded, recorded_cap;

void kit_view_record(struct kit_range *ranges, unsigned *n, unsigned cap)
{
        recorded = ranges;
        n_recorded = n;
        recorded_cap = cap;
}

static void record(uint64_t at, uint64_t len)
{
        for (unsigned i = 0; i < *n_recorded; i++)
                if (recorded[i].at == at && recorded[i].len == len)
                        return;
        if (*n_recorded < recorded_cap)
                recorded[(*n_recorded)++] = (struct kit_range){ .at = at, .len = len };
}

enum blkup_outcome __wrap_blkup_view_get(struct blkup_view *v, uint64_t at, uint64_t len,
                                         struct blkup_bytes *ret)
{
        enum blkup_outcome o = __real_blkup_view_get(v, at, len, ret);
        uint8_t *copy;

        if (o != BLKUP_FOUND || len == 0)
                return o;
        if (recorded)
                record(at, len);
        if (is_off || len > COPY_MAX)
                return o;
        if (n_copies == room) {
                room = room ? room * 2 : 256;
                copies = realloc(copies, room * sizeof(*copies));
        }
        copy = malloc((size_t) len);
        if (!copies || !copy)
                kit_die("memory exhausted");
        memcpy(copy, ret->data, (size_t) len);
        copies[n_copies++] = copy;
        ret->data = copy;
        return o;
}

bool __real_blkup_view_work(struct blkup_view *v, uint32_t n);
bool __wrap_blkup_view_work(struct blkup_view *v, uint32_t n);

static unsigned work_asked, work_denied_at;

void kit_view_deny_work(unsigned at)
{
        work_asked = 0;
        work_denied_at = at;
}

bool kit_view_was_denied(void)
{
        return work_denied_at > 0 && work_asked >= work_denied_at;
}

/* Once the budget is used up it stays so. */
bool __wrap_blkup_view_work(struct blkup_view *v, uint32_t n)
{
        work_asked++;
        return !kit_view_was_denied() && __real_blkup_view_work(v, n);
}

void kit_view_release(void)
{
        for (size_t i = 0; i < n_copies; i++)
                free(copies[i]);
        n_copies = 0;
        if (room > 4096) {
                free(copies);
                copies = NULL;
                room = 0;
        }
}
