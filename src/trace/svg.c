/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The picture: one SVG file that needs nothing else, no script, no font, no style sheet. Lanes by device,
 * lanes by worker, and above them the critical path as a lane of its own.
 *
 * Every text is cleaned (svg-text.c), escaped (svg-out.c), and placed by a width that no common font exceeds:
 * what does not fit into its place is left to the tooltip.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/svg-private.h"

#define WIDTH      1200.0
#define MARGIN     20.0
#define LABEL_MIN  70.0
#define LABEL_MAX  230.0
#define LABEL_GAP  12.0
/* Above this many rows they are lower. */
#define ROOMY_ROWS 48u
#define MAX_LINES  3u /* of the text of the critical path */
#define PATH_ITEMS 64u
/* Narrower than this nothing is seen. */
#define BAR_MIN_PX 0.8

struct sizes {
        double row, bar, font, strip;
};

struct drawing {
        struct blkup_svg_out o;
        struct blkup_svg_layout l;
        double label_px, x0, x1, scale; /* pixels a nanosecond */
        double height, y;               /* y: what is below is free */
        struct place {
                double from, to, y, half;
        } * places; /* of the steps of the path */
        uint64_t n_tiny;
};

/* ---- what is measured first ---- */

static double x_of(const struct drawing *d, uint64_t ns)
{
        return d->x0 + (double) (ns - d->l.start_ns) * d->scale;
}

static struct sizes sizes_of(uint32_t n_rows)
{
        return n_rows <= ROOMY_ROWS ? (struct sizes){ 24, 18, 11, 4 } : (struct sizes){ 17, 13, 9.5, 3 };
}

static const struct sizes worker_sizes = { 16, 12, 9.5, 3 };

static void group_label(const struct drawing *d, const struct blkup_svg_group *g, char *out, size_t cap)
{
        if (g->name)
                (void) blkup_svg_clean(blkup_svg_label(&d->l, g->name), out, cap);
        else if (g->number == 0)
                (void) snprintf(out, cap, "main thread");
        else
                (void) snprintf(out, cap, "worker %" PRIu32, g->number);
}

static void measure_labels(struct drawing *d)
{
        const struct blkup_svg_section *sections[] = { &d->l.devices, &d->l.workers };

        d->label_px = LABEL_MIN;
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(sections); k++)
                for (size_t i = 0; i < sections[k]->n_groups; i++) {
                        char label[BLKUP_SVG_TEXT_CAP];
                        double w;

                        group_label(d, &sections[k]->groups[i], label, sizeof(label));
                        w = blkup_svg_width(label, 12, sections[k]->groups[i].is_critical);
                        if (w > d->label_px)
                                d->label_px = w;
                }
        if (d->label_px > LABEL_MAX)
                d->label_px = LABEL_MAX;
        d->x0 = MARGIN + d->label_px + LABEL_GAP;
        d->x1 = WIDTH - MARGIN - 8;
        d->scale = d->l.end_ns > d->l.start_ns ? (d->x1 - d->x0) / (double) (d->l.end_ns - d->l.start_ns) : 0;
}

/* ---- the text of the critical path ---- */

struct item {
        uint64_t ns;
        char text[168];
};

static size_t path_items(const struct drawing *d, struct item *items, size_t cap)
{
        size_t n = 0;

        for (size_t i = 0; i < d->l.n_path; i++) {
                const struct blkup_path_step *step = &d->l.path[i];
                char name[BLKUP_SVG_TEXT_CAP], lane[BLKUP_SVG_TEXT_CAP], shown[90], brief[40], time[32];
                struct blkup_span s;

                blkup_trace_sorted(d->l.t, step->node, &s, NULL);
                if (step->wait_ns > BLKUP_PATH_GAP_NS && n < cap) {
                        blkup_svg_duration(step->wait_ns, time, sizeof(time));
                        items[n].ns = step->wait_ns;
                        (void) snprintf(items[n++].text, sizeof(items->text), "%s %s", i ? "wait" : "start",
                                        time);
                }
                if (n == cap)
                        break;
                if (!blkup_path_is_told(s.kind, s.end_ns - s.start_ns))
                        continue;
                (void) blkup_svg_clean(s.name, name, sizeof(name));
                (void) blkup_svg_clean(blkup_svg_label(&d->l, s.lane), lane, sizeof(lane));
                blkup_svg_shorten(name, 160, 12, false, brief, sizeof(brief));
                blkup_svg_shorten(lane, 240, 12, false, shown, sizeof(shown));
                blkup_svg_duration(s.end_ns - s.start_ns, time, sizeof(time));
                items[n].ns = s.end_ns - s.start_ns;
                (void) snprintf(items[n++].text, sizeof(items->text), "%s %s %s", brief, shown, time);
        }
        return n;
}

static int compare_ns_down(const void *pa, const void *pb)
{
        const uint64_t *a = pa, *b = pb;

        return *a < *b ? 1 : *a > *b ? -1 : 0;
}

static const char arrow[] = " \xe2\x86\x92 "; /* U+2192 */

/* The items of at least min_ns in lines; draws them when is_drawn. Returns how many lines they take. */
static unsigned flow_items(struct drawing *d, const struct item *items, size_t n, uint64_t min_ns,
                           bool is_drawn)
{
        const double max_px = d->x1 - MARGIN, font = 12;
        char line[2048] = "";
        double used = 0;
        unsigned lines = 0;
        size_t len = 0;

        for (size_t i = 0; i <= n; i++) {
                const char *join = len > 0 ? arrow : lines > 0 ? arrow + 1 : "";
                double w;

                if (i < n && items[i].ns < min_ns)
                        continue;
                w = i < n ? blkup_svg_width(join, font, false) + blkup_svg_width(items[i].text, font, false)
                          : 0;
                if (len > 0 && (i == n || used + w > max_px || len + 200 > sizeof(line))) {
                        if (is_drawn)
                                blkup_svg_put_text(&d->o, "pathtext", MARGIN, d->y + 12 + 16 * lines, line,
                                                   font, false);
                        lines++;
                        len = 0;
                        used = 0;
                        join = arrow + 1;
                        w += i < n ? blkup_svg_width(" ", font, false) : 0;
                }
                if (i < n) {
                        len += (size_t) snprintf(line + len, sizeof(line) - len, "%s%s", join, items[i].text);
                        used += w;
                }
        }
        return lines;
}

/* The items in at most MAX_LINES lines: where there are more, the longest. */
static double draw_path_text(struct drawing *d, bool is_drawn)
{
        struct item *items = calloc(2 * PATH_ITEMS, sizeof(*items));
        uint64_t lengths[2 * PATH_ITEMS], min_ns = 0;
        unsigned lines = 0;
        size_t n, kept;

        if (!items) {
                d->o.error = -ENOMEM;
                return 0;
        }
        n = path_items(d, items, 2 * PATH_ITEMS);
        for (size_t i = 0; i < n; i++)
                lengths[i] = items[i].ns;
        qsort(lengths, n, sizeof(*lengths), compare_ns_down);
        /* Ends: fewer each turn. */
        for (kept = n; kept > 0; kept--) {
                min_ns = kept == n ? 0 : lengths[kept - 1];
                lines = flow_items(d, items, n, min_ns, false);
                if (lines <= MAX_LINES)
                        break;
        }
        if (is_drawn)
                (void) flow_items(d, items, n, min_ns, true);
        free(items);
        return lines * 16.0;
}

/* ---- frames ---- */

static double nice_step(double ns)
{
        static const double steps[] = { 1, 2, 5, 10 };
        double unit = 1;

        /* Ends: a 64-bit time has no 21 digits. */
        while (unit * 10 <= ns)
                unit *= 10;
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(steps); i++)
                if (steps[i] * unit >= ns)
                        return steps[i] * unit;
        return 10 * unit;
}

static void put_tick_text(struct blkup_svg_out *o, double ns, double step)
{
        if (step >= 5e8) {
                blkup_svg_put_number(o, ns / 1e9);
                blkup_svg_put(o, " s");
        } else if (step >= 1e5) {
                blkup_svg_put_number(o, ns / 1e6);
                blkup_svg_put(o, " ms");
        } else {
                blkup_svg_put_number(o, ns / 1e3);
                blkup_svg_put(o, " \xc2\xb5s");
        }
}

/* Lines from y to the end of a block, with their times above. */
static void draw_grid(struct drawing *d, double y, double to)
{
        double span = (double) (d->l.end_ns - d->l.start_ns), step;

        if (d->scale <= 0)
                return;
        step = nice_step(90 / d->scale);
        if (step < 100)
                step = 100; /* a tenth of a microsecond: what the text can say */
        /* Ends: at least 90 pixels a turn. */
        for (unsigned i = 0; i * step <= span; i++) {
                double x = d->x0 + i * step * d->scale;

                blkup_svg_put(&d->o, "<line class=\"grid\"");
                blkup_svg_put_px(&d->o, "x1", x);
                blkup_svg_put_px(&d->o, "y1", y);
                blkup_svg_put_px(&d->o, "x2", x);
                blkup_svg_put_px(&d->o, "y2", to);
                blkup_svg_put(&d->o, "/>");
                if (i * step * d->scale > d->x1 - d->x0 - 10 && i > 0 && d->x1 - x < 2)
                        x = d->x1 - 10; /* the last one stays on the page */
                blkup_svg_put(&d->o, "<text class=\"tick\"");
                blkup_svg_put_px(&d->o, "x", x);
                blkup_svg_put_px(&d->o, "y", y - 4);
                blkup_svg_put(&d->o, ">");
                put_tick_text(&d->o, i * step, step);
                blkup_svg_put(&d->o, "</text>\n");
        }
}

static void put_count(struct blkup_svg_out *o, uint64_t n, const char *one, const char *many)
{
        blkup_svg_putf(o, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

static void put_bytes(struct blkup_svg_out *o, uint64_t bytes)
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
        double v = (double) bytes;
        size_t i = 0;

        /* Ends: seven units. */
        while (v >= 1024 && i + 1 < BLKUP_ARRAY_SIZE(units)) {
                v /= 1024;
                i++;
        }
        blkup_svg_put_number(o, v);
        blkup_svg_putf(o, " %s", units[i]);
}

static void draw_head(struct drawing *d)
{
        char title[BLKUP_SVG_TEXT_CAP], shown[BLKUP_SVG_TEXT_CAP], time[32];
        struct blkup_svg_out *o = &d->o;

        (void) blkup_svg_clean(*blkup_trace_title(d->l.t) ? blkup_trace_title(d->l.t) : "blkup", title,
                               sizeof(title));
        blkup_svg_shorten(title, d->x1 - MARGIN, 18, true, shown, sizeof(shown));
        blkup_svg_put_text(o, "title", MARGIN, 34, shown, 18, true);
        blkup_svg_duration(d->l.end_ns - d->l.start_ns, time, sizeof(time));
        blkup_svg_putf(o, "<text class=\"quiet\" x=\"20\" y=\"54\">%s in all, ", time);
        put_count(o, d->l.devices.n_groups + d->l.devices.n_hidden_groups, "lane", "lanes");
        if (d->l.workers.n_groups > 0) {
                blkup_svg_put(o, ", ");
                put_count(o, d->l.workers.n_groups + d->l.workers.n_hidden_groups, "worker", "workers");
        }
        blkup_svg_put(o, ", ");
        put_count(o, d->l.n_spans, "span", "spans");
        if (d->l.bytes) {
                blkup_svg_put(o, ", ");
                put_bytes(o, d->l.bytes);
        }
        if (d->l.reads) {
                blkup_svg_put(o, ", ");
                put_count(o, d->l.reads, "read", "reads");
        }
        if (d->l.errors) {
                blkup_svg_put(o, ", ");
                put_count(o, d->l.errors, "error", "errors");
        }
        blkup_svg_put(o, "</text>\n");
        d->y = 66;
}

static double draw_key(struct drawing *d, double x, const char *rect, const char *text)
{
        double y = d->y;

        blkup_svg_put_rect(&d->o, rect, x, y + 1, 18, 11);
        blkup_svg_put(&d->o, " rx=\"2\"/>");
        blkup_svg_put_text(&d->o, "quiet", x + 23, y + 11, text, 12, false);
        return x + 23 + blkup_svg_width(text, 12, false) + 16;
}

static void draw_legend(struct drawing *d)
{
        bool has_wait = d->l.kinds[BLKUP_SPAN_WAIT];
        double x = MARGIN;

        for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++) {
                char class[16];

                if (!d->l.kinds[k] || k == BLKUP_SPAN_WAIT)
                        continue;
                (void) snprintf(class, sizeof(class), "k%u", k);
                x = draw_key(d, x, class, blkup_svg_kind_text((enum blkup_span_kind) k));
        }
        for (size_t i = 0; i < d->l.n_path; i++)
                has_wait = has_wait || d->l.path[i].wait_ns > BLKUP_PATH_GAP_NS;
        if (has_wait)
                x = draw_key(d, x, "wait", "waiting, and why");
        if (d->l.n_path > 0)
                x = draw_key(d, x, "box path", "on the critical path");
        if (d->l.errors > 0)
                (void) draw_key(d, x, "box bad", "failed");
        d->y += 22;
}

/* ---- bars ---- */

static void put_tooltip(struct drawing *d, const struct blkup_svg_bar *b)
{
        const struct blkup_span *s = &b->s;
        struct blkup_svg_out *o = &d->o;
        char time[32];

        blkup_svg_put(o, "<title>");
        blkup_svg_put_untrusted(o, s->lane);
        blkup_svg_put(o, "\n");
        blkup_svg_put_untrusted(o, s->name);
        if (s->detail) {
                blkup_svg_put(o, ": ");
                blkup_svg_put_untrusted(o, s->detail);
        }
        blkup_svg_duration(s->end_ns - s->start_ns, time, sizeof(time));
        blkup_svg_putf(o, "\n%s", time);
        blkup_svg_duration(s->start_ns - d->l.start_ns, time, sizeof(time));
        blkup_svg_putf(o, ", from %s on", time);
        if (s->bytes || s->reads) {
                blkup_svg_putf(o, "\n%" PRIu64 " bytes", s->bytes);
                if (s->reads)
                        blkup_svg_putf(o, " in %" PRIu64 " %s", s->reads, s->reads == 1 ? "read" : "reads");
        }
        if (d->l.workers.n_groups > 0 && (s->worker || s->kind != BLKUP_SPAN_WAIT))
                blkup_svg_putf(o, s->worker ? "\nworker %u" : "\nmain thread", s->worker);
        if (s->error) {
                blkup_svg_putf(o, "\nerror %d: ", s->error);
                blkup_svg_put_untrusted(o, strerror(-(int64_t) s->error <= INT32_MAX ? -s->error : 0));
        }
        if (b->path_at != SIZE_MAX) {
                const struct blkup_path_step *step = &d->l.path[b->path_at];

                blkup_svg_put(o, "\non the critical path");
                if (step->wait_ns > 0) {
                        blkup_svg_duration(step->wait_ns, time, sizeof(time));
                        blkup_svg_putf(o, ", after a wait of %s%s", time,
                                       step->why == BLKUP_PATH_WORKER ? " for its worker" : "");
                }
        }
        blkup_svg_put(o, "</title>");
}

static void bar_class(const struct blkup_svg_bar *b, char *out, size_t cap)
{
        char fill[8];

        if (b->s.kind == BLKUP_SPAN_WAIT)
                (void) snprintf(fill, sizeof(fill), "wait");
        else
                (void) snprintf(fill, sizeof(fill), "%c%u", b->depth ? 'i' : 'k', (unsigned) b->s.kind);
        (void) snprintf(out, cap, "bar %s%s%s", fill, b->path_at != SIZE_MAX ? " path" : "",
                        b->s.error && b->depth == 0 ? " bad" : "");
}

static double width_of_bar(const struct drawing *d, const struct blkup_svg_bar *b)
{
        double w = (double) (b->s.end_ns - b->s.start_ns) * d->scale;

        return w < BAR_MIN_PX ? BAR_MIN_PX : w;
}

static void draw_bar(struct drawing *d, const struct blkup_svg_bar *b, double y, const struct sizes *z)
{
        double h = b->depth ? z->strip : z->bar, w = width_of_bar(d, b);
        char class[32];

        bar_class(b, class, sizeof(class));
        blkup_svg_put(&d->o, "<g>");
        put_tooltip(d, b);
        blkup_svg_put_rect(&d->o, class, x_of(d, b->s.start_ns),
                           y + (z->row - z->bar) / 2 + (b->depth ? z->bar - z->strip : 0), w, h);
        blkup_svg_put(&d->o, b->depth || w < 4 ? "/></g>\n" : " rx=\"2\"/></g>\n");
}

/* What a bar says, the best that fits into px; "": nothing does. */
static void bar_text(const struct drawing *d, const struct blkup_svg_bar *b, bool is_worker, double px,
                     double font, char *out, size_t cap)
{
        char name[BLKUP_SVG_TEXT_CAP], full[BLKUP_SVG_TEXT_CAP + 40], time[32];
        const char *what = is_worker                                     ? blkup_svg_label(&d->l, b->s.lane)
                           : b->s.kind == BLKUP_SPAN_WAIT && b->s.detail ? b->s.detail
                                                                         : b->s.name;

        *out = '\0';
        (void) blkup_svg_clean(what, name, sizeof(name));
        blkup_svg_duration(b->s.end_ns - b->s.start_ns, time, sizeof(time));
        (void) snprintf(full, sizeof(full), "%s %s", name, time);
        if (blkup_svg_width(full, font, false) <= px)
                (void) snprintf(out, cap, "%s", full);
        else if (blkup_svg_width(name, font, false) <= px)
                (void) snprintf(out, cap, "%s", name);
        else if (is_worker && px > 80)
                blkup_svg_shorten(name, px, font, false, out, cap);
        else if (b->s.kind == BLKUP_SPAN_WAIT && blkup_svg_width(b->s.name, font, false) <= px)
                (void) blkup_svg_clean(b->s.name, out, cap); /* half a reason is none; the tooltip has it */
        else if (!is_worker && b->s.kind != BLKUP_SPAN_WAIT && blkup_svg_width(time, font, false) <= px)
                (void) snprintf(out, cap, "%s", time);
}

/* Is there a line of the critical path to the right of the bar? */
static bool leaves_a_line(const struct drawing *d, const struct blkup_svg_bar *b)
{
        const struct place *at;

        if (b->path_at == SIZE_MAX || b->path_at + 1 >= d->l.n_path)
                return false;
        at = &d->places[b->path_at];
        return at[1].from - at->to > 3;
}

static void draw_bar_text(struct drawing *d, const struct blkup_svg_bar *b, double next_x, double y,
                          bool is_worker, bool is_odd, bool has_strip, const struct sizes *z)
{
        double x = x_of(d, b->s.start_ns), w = width_of_bar(d, b), px = w - 8;
        char text[BLKUP_SVG_TEXT_CAP + 40], outside[BLKUP_SVG_TEXT_CAP + 40];
        double baseline = y + z->row / 2 + z->font * 0.36 - (has_strip ? z->strip / 2 : 0);

        bar_text(d, b, is_worker, px, z->font, text, sizeof(text));
        /* Beside it there may be more room; not for what was no time at all in a row of other things. */
        bar_text(d, b, is_worker, next_x - x - w - 10, z->font, outside, sizeof(outside));
        if (!*text || (strlen(outside) > strlen(text) && b->s.kind != BLKUP_SPAN_WAIT && !is_worker)) {
                if (!*outside || b->s.kind == BLKUP_SPAN_WAIT || leaves_a_line(d, b))
                        return;
                blkup_svg_put_text(&d->o, is_odd ? "in halo odd" : "in halo", x + w + 5, baseline, outside,
                                   z->font, false);
                return;
        }
        blkup_svg_put_text(&d->o, b->s.kind == BLKUP_SPAN_WAIT ? (is_odd ? "in halo odd" : "in halo") : "in",
                           x + 4, baseline, text, z->font, false);
}

/* ---- rows ---- */

enum pass { BARS, TEXTS };

/* The next bar of the same row that lies in no other; n: none. */
static size_t next_outer(const struct blkup_svg_bar *bars, size_t n, size_t i)
{
        size_t k = i + 1;

        while (k < n && (bars[k].track != bars[i].track || bars[k].depth > 0)) {
                if (bars[k].track != bars[i].track)
                        return n;
                k++;
        }
        return k;
}

static void draw_group_bars(struct drawing *d, const struct blkup_svg_section *s,
                            const struct blkup_svg_group *g, const struct sizes *z, enum pass pass,
                            bool is_odd)
{
        const struct blkup_svg_bar *bars = s->bars + g->first_bar;
        double drawn[BLKUP_JSON_DEPTH] = { 0 };
        uint32_t track = UINT32_MAX;

        for (size_t i = 0; i < g->n_bars; i++) {
                const struct blkup_svg_bar *b = &bars[i];
                double y = g->y + b->track * z->row, x = x_of(d, b->s.start_ns), w = width_of_bar(d, b);
                unsigned depth = b->depth < BLKUP_JSON_DEPTH ? b->depth : BLKUP_JSON_DEPTH - 1;
                size_t next;

                if (b->track != track)
                        memset(drawn, 0, sizeof(drawn));
                track = b->track;
                if (pass == BARS) {
                        /* All within a pixel that is painted already. */
                        if (x + w <= drawn[depth] + 0.3 && b->path_at == SIZE_MAX && !b->s.error) {
                                d->n_tiny++;
                                continue;
                        }
                        drawn[depth] = x + w;
                        draw_bar(d, b, y, z);
                } else if (b->depth == 0) {
                        next = next_outer(bars, g->n_bars, i);
                        draw_bar_text(d, b, next < g->n_bars ? x_of(d, bars[next].s.start_ns) : d->x1 + 8, y,
                                      !g->name, is_odd,
                                      i + 1 < g->n_bars && bars[i + 1].track == b->track &&
                                              bars[i + 1].depth > 0,
                                      z);
                }
        }
}

static void draw_band(struct drawing *d, const struct blkup_svg_group *g, const struct sizes *z, bool is_odd)
{
        char label[BLKUP_SVG_TEXT_CAP], shown[BLKUP_SVG_TEXT_CAP];
        double font = z->font < 11 ? 10 : 12;

        if (is_odd) {
                blkup_svg_put_rect(&d->o, "band", MARGIN - 8, g->y, WIDTH - 2 * MARGIN + 16,
                                   g->n_tracks * z->row);
                blkup_svg_put(&d->o, "/>\n");
        }
        group_label(d, g, label, sizeof(label));
        blkup_svg_shorten(label, d->label_px, font, g->is_critical, shown, sizeof(shown));
        blkup_svg_put(&d->o, "<g>");
        if (g->name) {
                blkup_svg_put(&d->o, "<title>");
                blkup_svg_put_untrusted(&d->o, g->name);
                blkup_svg_put(&d->o, "</title>");
        }
        blkup_svg_put_text(&d->o, g->is_critical ? "label pathtext" : "label", MARGIN + d->label_px,
                           g->y + z->row / 2 + font * 0.36, shown, font, g->is_critical);
        blkup_svg_put(&d->o, "</g>\n");
}

static double section_height(const struct blkup_svg_section *s, const struct sizes *z)
{
        return s->n_rows * z->row;
}

static void place_groups(struct blkup_svg_section *s, double y, const struct sizes *z)
{
        for (size_t i = 0; i < s->n_groups; i++) {
                s->groups[i].y = y;
                y += s->groups[i].n_tracks * z->row;
        }
}

static void draw_links(struct drawing *d)
{
        for (size_t i = 1; i < d->l.n_path; i++) {
                const struct place *a = &d->places[i - 1], *b = &d->places[i];
                bool is_same_row = a->y > b->y - 1 && a->y<b->y + 1, is_down = b->y> a->y;
                double x = b->from + 0.5, edge;

                if (a->half <= 0 || b->half <= 0 || (is_same_row && b->from - a->to < 1.5))
                        continue;
                edge = is_same_row ? b->y : is_down ? b->y - b->half : b->y + b->half;
                blkup_svg_put(&d->o, "<path class=\"link\" d=\"M");
                blkup_svg_put_number(&d->o, a->to);
                blkup_svg_put(&d->o, " ");
                blkup_svg_put_number(&d->o, a->y);
                blkup_svg_put(&d->o, "H");
                blkup_svg_put_number(&d->o, x);
                if (!is_same_row) {
                        blkup_svg_put(&d->o, "V");
                        blkup_svg_put_number(&d->o, edge);
                }
                blkup_svg_put(&d->o, "\"/>");
                if (!is_same_row && (is_down ? edge - a->y : a->y - edge) > 6) {
                        double back = is_down ? -5 : 5;

                        blkup_svg_put(&d->o, "<path class=\"tip\" d=\"M");
                        blkup_svg_put_number(&d->o, x);
                        blkup_svg_put(&d->o, " ");
                        blkup_svg_put_number(&d->o, edge);
                        blkup_svg_put(&d->o, "L");
                        blkup_svg_put_number(&d->o, x - 2.6);
                        blkup_svg_put(&d->o, " ");
                        blkup_svg_put_number(&d->o, edge + back);
                        blkup_svg_put(&d->o, "H");
                        blkup_svg_put_number(&d->o, x + 2.6);
                        blkup_svg_put(&d->o, "Z\"/>");
                }
                blkup_svg_put(&d->o, "\n");
        }
}

/* Where the steps of the path are, for the lines between them, which lie below all bars. */
static void find_places(struct drawing *d, const struct sizes *z)
{
        for (size_t i = 0; i < d->l.devices.n_bars; i++) {
                const struct blkup_svg_bar *b = &d->l.devices.bars[i];
                double x = x_of(d, b->s.start_ns);

                if (b->path_at != SIZE_MAX)
                        d->places[b->path_at] = (struct place){
                                x,
                                x + width_of_bar(d, b),
                                d->l.devices.groups[b->group].y + b->track * z->row + z->row / 2,
                                z->bar / 2,
                        };
        }
}

static void draw_section(struct drawing *d, struct blkup_svg_section *s, const char *title,
                         const struct sizes *z)
{
        double end;

        blkup_svg_put_text(&d->o, "head", MARGIN, d->y + 14, title, 12, true);
        place_groups(s, d->y + 22, z);
        end = d->y + 22 + section_height(s, z);
        for (size_t i = 0; i < s->n_groups; i++)
                draw_band(d, &s->groups[i], z, i % 2 == 0);
        draw_grid(d, d->y + 20, end);
        if (s == &d->l.devices) {
                find_places(d, z);
                draw_links(d);
        }
        for (size_t i = 0; i < s->n_groups; i++)
                draw_group_bars(d, s, &s->groups[i], z, BARS, i % 2 == 0);
        for (size_t i = 0; i < s->n_groups; i++)
                draw_group_bars(d, s, &s->groups[i], z, TEXTS, i % 2 == 0);
        d->y = end + 16;
}

/* ---- the critical path as a lane ---- */

static void draw_path_lane(struct drawing *d)
{
        static const struct sizes z = { 26, 20, 11, 4 };
        char text[64], time[32];
        double y;

        if (d->l.n_path == 0)
                return;
        blkup_svg_duration(d->l.path_ns, time, sizeof(time));
        (void) snprintf(text, sizeof(text), "Critical path: %s", time);
        blkup_svg_put_text(&d->o, "head pathtext", MARGIN, d->y + 14, text, 12, true);
        d->y += 20;
        d->y += draw_path_text(d, true) + 16;
        y = d->y;
        draw_grid(d, y, y + z.row);
        blkup_svg_put_text(&d->o, "label pathtext", MARGIN + d->label_px, y + z.row / 2 + 4, "critical path",
                           12, false);
        for (size_t i = 0; i < d->l.n_path; i++) {
                const struct blkup_path_step *step = &d->l.path[i];
                struct blkup_svg_bar b = { .path_at = i };
                char name[BLKUP_SVG_TEXT_CAP], lane[BLKUP_SVG_TEXT_CAP], full[2 * BLKUP_SVG_TEXT_CAP + 2];
                double w;

                blkup_trace_sorted(d->l.t, step->node, &b.s, &b.lane);
                if (step->wait_ns > 0) {
                        w = (double) step->wait_ns * d->scale;
                        blkup_svg_put(&d->o, "<g>");
                        blkup_svg_duration(step->wait_ns, time, sizeof(time));
                        blkup_svg_putf(&d->o, "<title>%s %s</title>",
                                       i == 0                           ? "before the first step:"
                                       : step->why == BLKUP_PATH_WORKER ? "for a worker:"
                                                                        : "wait:",
                                       time);
                        blkup_svg_put_rect(&d->o, "bar wait", x_of(d, b.s.start_ns) - w, y + 3, w, z.bar);
                        blkup_svg_put(&d->o, "/></g>\n");
                }
                draw_bar(d, &b, y, &z);
                w = width_of_bar(d, &b) - 8;
                (void) blkup_svg_clean(b.s.name, name, sizeof(name));
                (void) blkup_svg_clean(blkup_svg_label(&d->l, b.s.lane), lane, sizeof(lane));
                (void) snprintf(full, sizeof(full), "%s %s", name, lane);
                if (blkup_svg_width(full, 11, false) > w)
                        (void) snprintf(full, sizeof(full), "%s", name);
                if (blkup_svg_width(full, 11, false) <= w)
                        blkup_svg_put_text(&d->o, "in", x_of(d, b.s.start_ns) + 4, y + z.row / 2 + 4, full,
                                           11, false);
        }
        d->y = y + z.row + 18;
}

static void draw_foot(struct drawing *d)
{
        uint64_t dropped = blkup_trace_dropped(d->l.t), tiny = d->n_tiny + d->l.n_hidden;
        size_t hidden = d->l.devices.n_hidden_groups;
        bool has_text = false;
        struct blkup_svg_out *o = &d->o;

        if (tiny + dropped + hidden == 0)
                return;
        blkup_svg_put(o, "<text class=\"quiet\"");
        blkup_svg_put_px(o, "x", MARGIN);
        blkup_svg_put_px(o, "y", d->y + 8);
        blkup_svg_put(o, ">");
        if (tiny > 0) {
                put_count(o, tiny, "span is too short to be seen", "spans are too short to be seen");
                has_text = true;
        }
        if (hidden > 0) {
                blkup_svg_put(o, has_text ? "; " : "");
                put_count(o, hidden, "more lane is not shown", "more lanes are not shown");
                has_text = true;
        }
        if (dropped > 0) {
                blkup_svg_put(o, has_text ? "; " : "");
                put_count(o, dropped, "span was not kept", "spans were not kept");
        }
        blkup_svg_put(o, "</text>\n");
}

static void draw(struct drawing *d)
{
        struct sizes z = sizes_of(d->l.devices.n_rows);
        struct blkup_svg_out *o = &d->o;

        measure_labels(d);
        d->height = 66 + 22 + (d->l.n_path > 0 ? 20 + draw_path_text(d, false) + 16 + 26 + 18 : 0) + 22 +
                    section_height(&d->l.devices, &z) + 16 +
                    (d->l.workers.n_groups > 0 ? 22 + section_height(&d->l.workers, &worker_sizes) + 16 : 0) +
                    20;
        blkup_svg_put(o, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"");
        blkup_svg_put_untrusted(o, *blkup_trace_title(d->l.t) ? blkup_trace_title(d->l.t) : "blkup");
        blkup_svg_put(o, "\"");
        blkup_svg_put_px(o, "width", WIDTH);
        blkup_svg_put_px(o, "height", d->height);
        blkup_svg_put(o, " viewBox=\"0 0 ");
        blkup_svg_put_number(o, WIDTH);
        blkup_svg_put(o, " ");
        blkup_svg_put_number(o, d->height);
        blkup_svg_put(o, "\">\n");
        blkup_svg_put_style(&d->o, d->l.kinds);
        blkup_svg_put_rect(o, "page", 0, 0, WIDTH, d->height);
        blkup_svg_put(o, "/>\n");
        draw_head(d);
        draw_legend(d);
        draw_path_lane(d);
        if (d->l.devices.n_groups > 0)
                draw_section(d, &d->l.devices, "By device", &z);
        if (d->l.workers.n_groups > 0)
                draw_section(d, &d->l.workers, "By worker", &worker_sizes);
        draw_foot(d);
        blkup_svg_put(o, "</svg>\n");
}

int blkup_trace_write_svg(struct blkup_trace *t, int (*write)(void *to, const char *s, size_t n), void *to)
{
        struct drawing d = { .o = { .write = write, .to = to } };
        int r;

        if (!t)
                return -EINVAL;
        r = blkup_svg_lay_out(t, &d.l);
        if (r < 0)
                return r;
        d.places = calloc(d.l.n_path + 1, sizeof(*d.places));
        if (d.places)
                draw(&d);
        r = d.places ? d.o.error : -ENOMEM;
        free(d.places);
        blkup_svg_layout_free(&d.l);
        return r;
}
