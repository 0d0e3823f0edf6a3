/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The elements that the picture is made of, and its style. Every text is cleaned (svg-text.c) and escaped
 * here; numbers do not depend on the locale. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace/svg-private.h"

static void put_n(struct blkup_svg_out *o, const char *s, size_t n)
{
        if (o->error == 0 && n > 0)
                o->error = o->write(o->to, s, n);
}

void blkup_svg_put(struct blkup_svg_out *o, const char *s)
{
        put_n(o, s, strlen(s));
}

void blkup_svg_putf(struct blkup_svg_out *o, const char *fmt, ...)
{
        char text[256]; /* numbers and our own words only */
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        if (n > 0)
                put_n(o, text, (size_t) n < sizeof(text) ? (size_t) n : sizeof(text) - 1);
}

/* name="v", to a hundredth of a pixel; no locale's decimal point. */
void blkup_svg_put_px(struct blkup_svg_out *o, const char *name, double v)
{
        int64_t hundredths = (int64_t) (v * 100 + (v < 0 ? -0.5 : 0.5));
        int64_t rest = hundredths % 100;

        blkup_svg_putf(o, " %s=\"%s%" PRId64, name, hundredths < 0 ? "-" : "",
                       (hundredths < 0 ? -hundredths : hundredths) / 100);
        rest = rest < 0 ? -rest : rest;
        if (rest)
                blkup_svg_putf(o, rest % 10 ? ".%02" PRId64 : ".%" PRId64, rest % 10 ? rest : rest / 10);
        blkup_svg_put(o, "\"");
}

void blkup_svg_put_number(struct blkup_svg_out *o, double v)
{
        int64_t tenths = (int64_t) (v * 10 + 0.5);

        if (tenths % 10)
                blkup_svg_putf(o, "%" PRId64 ".%" PRId64, tenths / 10, tenths % 10);
        else
                blkup_svg_putf(o, "%" PRId64, tenths / 10);
}

/* A clean text as content or inside quotes. */
static void put_escaped(struct blkup_svg_out *o, const char *s)
{
        for (; *s; s++) {
                switch (*s) {
                case '&':
                        blkup_svg_put(o, "&amp;");
                        break;
                case '<':
                        blkup_svg_put(o, "&lt;");
                        break;
                case '>':
                        blkup_svg_put(o, "&gt;");
                        break;
                case '"':
                        blkup_svg_put(o, "&quot;");
                        break;
                case '\'':
                        blkup_svg_put(o, "&#39;");
                        break;
                default: {
                        size_t n = strcspn(s, "&<>\"'");

                        put_n(o, s, n);
                        s += n - 1;
                }
                }
        }
}

void blkup_svg_put_untrusted(struct blkup_svg_out *o, const char *s)
{
        char clean[BLKUP_SVG_TEXT_CAP];

        (void) blkup_svg_clean(s, clean, sizeof(clean));
        put_escaped(o, clean);
}

/* class: one of our words. */
void blkup_svg_put_text(struct blkup_svg_out *o, const char *class, double x, double y, const char *clean,
                        double font_px, bool is_bold)
{
        blkup_svg_putf(o, "<text class=\"%s%s%s\"", class,
                       font_px < 9.8    ? " s9"
                       : font_px < 10.5 ? " s10"
                       : font_px < 11.5 ? " s11"
                                        : "",
                       is_bold && font_px < 15 ? " b" : "");
        blkup_svg_put_px(o, "x", x);
        blkup_svg_put_px(o, "y", y);
        if (blkup_svg_has_unknown_width(clean)) {
                blkup_svg_put_px(o, "textLength", blkup_svg_width(clean, font_px, is_bold));
                blkup_svg_put(o, " lengthAdjust=\"spacingAndGlyphs\"");
        }
        blkup_svg_put(o, ">");
        put_escaped(o, clean);
        blkup_svg_put(o, "</text>\n");
}

void blkup_svg_put_rect(struct blkup_svg_out *o, const char *class, double x, double y, double w, double h)
{
        blkup_svg_putf(o, "<rect class=\"%s\"", class);
        blkup_svg_put_px(o, "x", x);
        blkup_svg_put_px(o, "y", y);
        blkup_svg_put_px(o, "width", w);
        blkup_svg_put_px(o, "height", h);
}

/* ---- colours ---- */

/* Quiet ones, each with a stronger one for the details inside; then the same for a dark page. */
static const struct {
        const char *light, *light_inner, *dark, *dark_inner, *says;
} colours[BLKUP_SPAN_KINDS] = {
        [BLKUP_SPAN_PROBE] = { "#b5d0ea", "#6f9fcb", "#34587d", "#6a9ccb", "probe" },
        [BLKUP_SPAN_READ] = { "#9cc3de", "#6f9fcb", "#3d6c8c", "#6a9ccb", "read" },
        [BLKUP_SPAN_MODULE] = { "#cfc1e8", "#9c86c6", "#544680", "#9583c4", "module" },
        [BLKUP_SPAN_ASSEMBLE] = { "#ecd79f", "#c4a24d", "#6e5a26", "#b8984a", "assembly" },
        [BLKUP_SPAN_LAZYINIT] = { "#b9dcb9", "#76ab78", "#37613c", "#70a675", "lazyinit" },
        [BLKUP_SPAN_FSCK] = { "#ecc3c6", "#c98a90", "#6f4149", "#bd7f87", "fsck" },
        [BLKUP_SPAN_MOUNT] = { "#f3cdae", "#d69a66", "#7a4e2d", "#cc8d58", "mount" },
        [BLKUP_SPAN_WAIT] = { "none", "none", "none", "none", "wait" },
        [BLKUP_SPAN_OTHER] = { "#d5d9de", "#9aa2ab", "#484e57", "#8c939c", "other" },
};

void blkup_svg_put_style(struct blkup_svg_out *o, const bool *kinds)
{
        blkup_svg_put(
                o,
                "<style>\n"
                "text{font-family:Roboto,\"Segoe UI\",\"Helvetica Neue\",Arial,\"Noto Sans\",\"DejaVu "
                "Sans\",sans-serif;"
                "font-size:12px;fill:#2b3036}\n"
                ".page{fill:#fff}.title{font-size:18px;font-weight:600}.quiet{fill:#69717b}\n"
                ".s9{font-size:9.5px}.s10{font-size:10px}.s11{font-size:11px}.b{font-weight:600}.band{fill:#"
                "f5f7f9}.grid{stroke:#e2e6ea}\n"
                ".tick{font-size:10px;fill:#69717b;text-anchor:middle}.label{text-anchor:end}\n"
                ".in{pointer-events:none}\n"
                ".wait{fill:url(#blkup-hatch)}.hatch{stroke:#a3abb5;stroke-width:1.4}.box{fill:#f1f3f5}\n"
                ".bar:hover{opacity:.75}.path{stroke:#c2255c;stroke-width:1.6}.pathtext{fill:#b01e52}\n"
                ".link{fill:none;stroke:#c2255c;stroke-width:1.1;opacity:.8}.tip{fill:#c2255c}\n"
                ".bad{stroke:#d9480f;stroke-width:1.4;stroke-dasharray:3 2}"
                ".path.bad{stroke:#c2255c;stroke-width:1.8}\n"
                ".halo{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\n"
                ".halo.odd{stroke:#f5f7f9}\n");
        for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++)
                if (kinds[k] && k != BLKUP_SPAN_WAIT)
                        blkup_svg_putf(o, ".k%u{fill:%s}.i%u{fill:%s}", k, colours[k].light, k,
                                       colours[k].light_inner);
        blkup_svg_put(o,
                      "\n@media (prefers-color-scheme:dark){\n"
                      "text{fill:#dde1e6}.page{fill:#15181c}.quiet,.tick{fill:#98a1ac}.band{fill:#1b1f24}\n"
                      ".grid{stroke:#2d333b}.hatch{stroke:#6b747f}.box{fill:#20252b}\n"
                      ".path,.link{stroke:#ff7ba5}.tip{fill:#ff7ba5}.pathtext{fill:#ff9bbb}"
                      ".bad{stroke:#ff922b}.path.bad{stroke:#ff7ba5}\n"
                      ".halo{stroke:#15181c}.halo.odd{stroke:#1b1f24}\n");
        for (unsigned k = 0; k < BLKUP_SPAN_KINDS; k++)
                if (kinds[k] && k != BLKUP_SPAN_WAIT)
                        blkup_svg_putf(o, ".k%u{fill:%s}.i%u{fill:%s}", k, colours[k].dark, k,
                                       colours[k].dark_inner);
        blkup_svg_put(
                o,
                "\n}\n</style>\n"
                "<defs><pattern id=\"blkup-hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
                "patternTransform=\"rotate(45)\"><rect class=\"box\" width=\"5\" height=\"5\"/>"
                "<line class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\"/></pattern></defs>\n");
}

const char *blkup_svg_kind_text(enum blkup_span_kind kind)
{
        return colours[kind].says;
}
