/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the picture share: svg-text.c (widths, shortening), svg-layout.c (what lies where), svg.c
 * (the drawing). Nobody outside this folder includes it. Lengths are in CSS pixels. */
#ifndef BLKUP_TRACE_SVG_PRIVATE_H
#define BLKUP_TRACE_SVG_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/path.h"
#include "trace/trace-private.h"

/* ---- svg-text.c ---- */

/* A text of 255 bytes, each of which may become the three of U+FFFD; and the dots of shortening. */
#define BLKUP_SVG_TEXT_CAP 800u

/* s as it may be shown: valid UTF-8, of characters that XML has and that show something: any other byte,
 * control character or direction mark is U+FFFD, white space a blank. Returns its length. */
size_t blkup_svg_clean(const char *s, char *out, size_t cap);

/* How wide a clean text is at most, whatever common font the viewer has. */
double blkup_svg_width(const char *s, double font_px, bool is_bold);

/* Has it characters whose width nobody knows? Such a text is drawn with its length said (textLength). */
bool blkup_svg_has_unknown_width(const char *s);

/* A clean text, shortened in the middle to fit into max_px. */
void blkup_svg_shorten(const char *s, double max_px, double font_px, bool is_bold, char *out, size_t cap);

/* "12.3 ms": three digits or so of a time. */
void blkup_svg_duration(uint64_t ns, char *out, size_t cap);

/* ---- svg-out.c ---- */

struct blkup_svg_out {
        int (*write)(void *to, const char *s, size_t n);
        void *to;
        int error;
};

void blkup_svg_put(struct blkup_svg_out *o, const char *s);
/* Numbers and our own words only, at most 255 bytes. */
void blkup_svg_putf(struct blkup_svg_out *o, const char *fmt, ...) BLKUP_PRINTF(2, 3);
/* name="v", to a hundredth of a pixel. */
void blkup_svg_put_px(struct blkup_svg_out *o, const char *name, double v);
/* v, at least 0, to a tenth. */
void blkup_svg_put_number(struct blkup_svg_out *o, double v);
/* Cleaned and escaped: as content, or inside quotes. */
void blkup_svg_put_untrusted(struct blkup_svg_out *o, const char *s);
/* A clean text at its place. class: one of our words. */
void blkup_svg_put_text(struct blkup_svg_out *o, const char *class, double x, double y, const char *clean,
                        double font_px, bool is_bold);
/* Without its end: "/>" or ">" is the caller's. */
void blkup_svg_put_rect(struct blkup_svg_out *o, const char *class, double x, double y, double w, double h);
/* The style sheet, with the colours of these kinds. */
void blkup_svg_put_style(struct blkup_svg_out *o, const bool *kinds);
/* What the legend calls a kind. */
const char *blkup_svg_kind_text(enum blkup_span_kind kind);

/* ---- svg-layout.c ---- */

struct blkup_svg_bar {
        struct blkup_span s;
        uint64_t index; /* in order of start */
        uint32_t lane;  /* number in the trace */
        size_t group;   /* into groups */
        uint32_t track; /* row within its group */
        unsigned depth; /* 0: in no other span of its row */
        size_t path_at; /* step of the critical path, or SIZE_MAX */
};

/* A device (a lane), or a worker. */
struct blkup_svg_group {
        const char *name; /* of a lane; NULL: a worker */
        uint32_t number;  /* of the lane in the trace, or the worker's */
        uint64_t first_ns, last_ns;
        uint32_t n_tracks;
        size_t first_bar, n_bars; /* into bars: by track, then by start */
        bool is_critical;
        double y; /* top of its first row */
};

struct blkup_svg_section {
        struct blkup_svg_group *groups;
        struct blkup_svg_bar *bars;
        size_t n_groups, n_bars;
        size_t n_hidden_groups; /* beyond what a picture can show */
        uint32_t n_rows;
};

struct blkup_svg_layout {
        struct blkup_trace *t;
        uint64_t start_ns, end_ns;
        uint64_t bytes, reads, errors, n_spans, n_hidden;
        uint64_t path_ns;
        bool kinds[BLKUP_SPAN_KINDS]; /* those that occur */
        struct blkup_path_step *path;
        size_t n_path;
        struct blkup_svg_section devices, workers; /* workers: empty when there is but one */
        size_t prefix; /* bytes that all names which are paths begin with, and that labels leave out */
};

BLKUP_MUST_CHECK int blkup_svg_lay_out(struct blkup_trace *t, struct blkup_svg_layout *ret);
void blkup_svg_layout_free(struct blkup_svg_layout *l);

/* The name of a lane as its label has it. */
const char *blkup_svg_label(const struct blkup_svg_layout *l, const char *lane);

#endif
