/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the picture shows and in which row: devices by the start of their first span, workers by number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/svg-private.h"

/* What nobody could look at any more: longer spans are taken first, and lanes that began first. */
#define MAX_BARS   UINT64_C(100000)
#define MAX_GROUPS 1500u
#define MAX_TRACKS 8u
/* Slices nest as calls do. */
#define MAX_DEPTH  8u

static int compare_bars(const void *pa, const void *pb)
{
        const struct blkup_svg_bar *a = pa, *b = pb;

        if (a->group != b->group)
                return a->group < b->group ? -1 : 1;
        if (a->track != b->track)
                return a->track < b->track ? -1 : 1;
        if (a->s.start_ns != b->s.start_ns)
                return a->s.start_ns < b->s.start_ns ? -1 : 1;
        /* The longer one holds the other. */
        if (a->s.end_ns != b->s.end_ns)
                return a->s.end_ns > b->s.end_ns ? -1 : 1;
        return a->index < b->index ? -1 : a->index > b->index;
}

struct track {
        unsigned depth;
        uint64_t ends_ns[MAX_DEPTH];
};

/* Each bar of a group onto the first row where it nests or stands free; as blkup_trace_write_json() has it.
 */
static void place(struct blkup_svg_group *g, struct blkup_svg_bar *bars)
{
        struct track tracks[MAX_TRACKS] = { 0 };

        for (size_t i = g->first_bar; i < g->first_bar + g->n_bars; i++) {
                struct blkup_svg_bar *b = &bars[i];

                for (b->track = 0; b->track < MAX_TRACKS; b->track++) {
                        struct track *t = &tracks[b->track];

                        while (t->depth > 0 && t->ends_ns[t->depth - 1] <= b->s.start_ns)
                                t->depth--;
                        if (t->depth < MAX_DEPTH &&
                            (t->depth == 0 || t->ends_ns[t->depth - 1] >= b->s.end_ns)) {
                                b->depth = t->depth;
                                t->ends_ns[t->depth++] = b->s.end_ns;
                                break;
                        }
                }
                if (b->track == MAX_TRACKS) {
                        /* Over others: low, and without a text that would lie over theirs. */
                        b->track = MAX_TRACKS - 1;
                        b->depth = MAX_DEPTH;
                }
                if (b->track >= g->n_tracks)
                        g->n_tracks = b->track + 1;
        }
}

/* Groups in their order, bars behind their group. order: by start (devices) or as they are (workers). */
static int compare_groups_by_start(const void *pa, const void *pb)
{
        const struct blkup_svg_group *a = pa, *b = pb;

        if (a->first_ns != b->first_ns)
                return a->first_ns < b->first_ns ? -1 : 1;
        return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_groups_by_number(const void *pa, const void *pb)
{
        const struct blkup_svg_group *a = pa, *b = pb;

        return a->number < b->number ? -1 : a->number > b->number;
}

/* bars have the number of their group in ->group: here it becomes an index into groups. */
static int arrange(struct blkup_svg_section *s, bool by_start, struct blkup_trace *t)
{
        struct blkup_svg_group *groups = calloc(s->n_bars + 1, sizeof(*groups));
        size_t *index = NULL, n = 0, kept = 0;

        if (!groups)
                return -ENOMEM;
        s->groups = groups;
        qsort(s->bars, s->n_bars, sizeof(*s->bars), compare_bars);
        for (size_t i = 0; i < s->n_bars; i++) {
                const struct blkup_svg_bar *b = &s->bars[i];

                if (n == 0 || groups[n - 1].number != b->group)
                        groups[n++] = (struct blkup_svg_group){
                                .number = (uint32_t) b->group,
                                .first_ns = UINT64_MAX,
                                .name = by_start ? blkup_trace_lane_name(t, (uint32_t) b->group) : NULL,
                        };
                if (b->s.start_ns < groups[n - 1].first_ns)
                        groups[n - 1].first_ns = b->s.start_ns;
                if (b->s.end_ns > groups[n - 1].last_ns)
                        groups[n - 1].last_ns = b->s.end_ns;
                groups[n - 1].n_bars++;
                groups[n - 1].is_critical |= b->path_at != SIZE_MAX;
        }
        /* The bars' groups by their old place: workers and lanes are few numbers, but not dense ones. */
        index = calloc(n + 1, sizeof(*index));
        if (!index)
                return -ENOMEM;
        for (size_t i = 0, k = 0; i < n; i++)
                for (size_t end = k + groups[i].n_bars; k < end; k++)
                        s->bars[k].group = i;
        for (size_t i = 0; i < n; i++)
                groups[i].first_bar = i; /* its old place, for now */
        qsort(groups, n, sizeof(*groups), by_start ? compare_groups_by_start : compare_groups_by_number);
        for (size_t i = 0; i < n; i++)
                index[groups[i].first_bar] = i;
        for (size_t i = 0; i < s->n_bars; i++)
                s->bars[i].group = index[s->bars[i].group];
        free(index);
        qsort(s->bars, s->n_bars, sizeof(*s->bars), compare_bars);
        s->n_groups = n < MAX_GROUPS ? n : MAX_GROUPS;
        s->n_hidden_groups = n - s->n_groups;
        for (size_t i = 0; i < s->n_groups; i++) {
                groups[i].first_bar = kept;
                kept += groups[i].n_bars;
                place(&groups[i], s->bars);
                s->n_rows += groups[i].n_tracks;
        }
        s->n_bars = kept;
        /* Now that tracks are known: by track, and within one by start. */
        qsort(s->bars, s->n_bars, sizeof(*s->bars), compare_bars);
        return 0;
}

static int compare_u64_down(const void *pa, const void *pb)
{
        const uint64_t *a = pa, *b = pb;

        return *a < *b ? 1 : *a > *b ? -1 : 0;
}

/* How long a span must be to be shown; 0: all are. */
static int find_shortest(struct blkup_svg_layout *l, uint64_t *ret)
{
        uint64_t *lengths;

        *ret = 0;
        if (l->n_spans <= MAX_BARS)
                return 0;
        lengths = calloc((size_t) l->n_spans, sizeof(*lengths));
        if (!lengths)
                return -ENOMEM;
        for (uint64_t i = 0; i < l->n_spans; i++) {
                struct blkup_span s;

                blkup_trace_sorted(l->t, i, &s, NULL);
                lengths[i] = s.end_ns - s.start_ns;
        }
        qsort(lengths, (size_t) l->n_spans, sizeof(*lengths), compare_u64_down);
        *ret = lengths[MAX_BARS] + 1;
        free(lengths);
        return 0;
}

static size_t *path_places(const struct blkup_svg_layout *l)
{
        size_t *at = malloc(((size_t) l->n_spans + 1) * sizeof(*at));

        for (uint64_t i = 0; at && i < l->n_spans; i++)
                at[i] = SIZE_MAX;
        for (size_t i = 0; at && i < l->n_path; i++)
                at[l->path[i].node] = i;
        return at;
}

static void count(struct blkup_svg_layout *l, const struct blkup_span *s)
{
        if (s->end_ns > l->end_ns)
                l->end_ns = s->end_ns;
        l->kinds[s->kind] = true;
        l->errors += s->error != 0;
        /* A read lies in the probe that it is part of, which has counted it. */
        if (s->kind != BLKUP_SPAN_READ) {
                l->bytes = l->bytes > UINT64_MAX - s->bytes ? UINT64_MAX : l->bytes + s->bytes;
                l->reads = l->reads > UINT64_MAX - s->reads ? UINT64_MAX : l->reads + s->reads;
        }
}

/* What is drawn by worker: the steps themselves, neither their details nor what only waited. */
static int take_workers(struct blkup_svg_layout *l)
{
        struct blkup_svg_section *d = &l->devices, *w = &l->workers;
        unsigned first = 0;
        bool has_more = false;

        w->bars = calloc(d->n_bars + 1, sizeof(*w->bars));
        if (!w->bars)
                return -ENOMEM;
        for (size_t i = 0; i < d->n_bars; i++) {
                const struct blkup_svg_bar *b = &d->bars[i];

                if (b->depth > 0 || b->s.kind == BLKUP_SPAN_WAIT || b->s.start_ns == b->s.end_ns)
                        continue;
                if (w->n_bars == 0)
                        first = b->s.worker;
                has_more = has_more || b->s.worker != first;
                w->bars[w->n_bars] = *b;
                w->bars[w->n_bars].group = b->s.worker;
                w->bars[w->n_bars].track = 0;
                w->n_bars++;
        }
        if (!has_more)
                w->n_bars = 0;
        return arrange(w, false, l->t);
}

/* Files of one folder: the folder says nothing that distinguishes them. */
static void find_prefix(struct blkup_svg_layout *l)
{
        const char *first = NULL;
        size_t n = 0;

        for (size_t i = 0; i < l->devices.n_groups; i++) {
                const char *name = l->devices.groups[i].name;
                size_t k = 0;

                if (*name != '/')
                        continue;
                if (!first) {
                        const char *slash = strrchr(name, '/');

                        first = name;
                        n = (size_t) (slash - name) + 1;
                        continue;
                }
                while (k < n && name[k] == first[k]) /* ends: both are terminated */
                        k++;
                n = k;
        }
        while (n > 0 && first[n - 1] != '/')
                n--;
        /* "/" alone is part of a mount point's name. */
        l->prefix = n > 1 ? n : 0;
}

const char *blkup_svg_label(const struct blkup_svg_layout *l, const char *lane)
{
        if (l->prefix == 0 || *lane != '/' || strlen(lane) <= l->prefix)
                return lane;
        return lane + l->prefix;
}

static int lay_out(struct blkup_svg_layout *l)
{
        struct blkup_svg_section *d = &l->devices;
        size_t *path_at = path_places(l);
        uint64_t shortest;
        int r = path_at ? find_shortest(l, &shortest) : -ENOMEM;

        if (r == 0) {
                d->bars = calloc((size_t) l->n_spans + 1, sizeof(*d->bars));
                r = d->bars ? 0 : -ENOMEM;
        }
        for (uint64_t i = 0; r == 0 && i < l->n_spans; i++) {
                struct blkup_svg_bar *b = &d->bars[d->n_bars];

                blkup_trace_sorted(l->t, i, &b->s, &b->lane);
                if (i == 0)
                        l->start_ns = b->s.start_ns;
                count(l, &b->s);
                if (b->s.end_ns - b->s.start_ns < shortest && path_at[i] == SIZE_MAX) {
                        l->n_hidden++;
                        continue;
                }
                b->index = i;
                b->group = b->lane;
                b->path_at = path_at[i];
                d->n_bars++;
        }
        free(path_at);
        for (size_t i = 0; i < l->n_path; i++) {
                struct blkup_span s;

                blkup_trace_sorted(l->t, l->path[i].node, &s, NULL);
                l->path_ns += s.end_ns - s.start_ns + l->path[i].wait_ns;
        }
        if (r == 0)
                r = arrange(d, true, l->t);
        if (r == 0)
                r = take_workers(l);
        if (r == 0)
                find_prefix(l);
        return r;
}

int blkup_svg_lay_out(struct blkup_trace *t, struct blkup_svg_layout *ret)
{
        int r = blkup_trace_sort(t);

        *ret = (struct blkup_svg_layout){ .t = t };
        if (r == 0)
                r = blkup_trace_path(t, &ret->path, &ret->n_path);
        if (r == 0) {
                ret->n_spans = blkup_trace_sorted_count(t);
                r = lay_out(ret);
        }
        if (r < 0)
                blkup_svg_layout_free(ret);
        return r;
}

void blkup_svg_layout_free(struct blkup_svg_layout *l)
{
        free(l->path);
        free(l->devices.groups);
        free(l->devices.bars);
        free(l->workers.groups);
        free(l->workers.bars);
        *l = (struct blkup_svg_layout){ 0 };
}
