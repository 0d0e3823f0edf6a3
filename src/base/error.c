/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* A message is put together here before it replaces the old one, which may be one of its own arguments. */
struct line {
        char text[sizeof((struct blkup_error *) 0)->message];
        size_t len;
        bool cut;
};

/* Control characters would break the promise of one line, and could steer a terminal. */
static void flatten(char *s, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char) s[i];

                if (c == '\n' || c == '\t' || c == '\r')
                        s[i] = ' ';
                else if (c < 0x20 || c == 0x7f)
                        s[i] = '?';
        }
}

static void BLKUP_PRINTF(2, 0) append_v(struct line *l, const char *fmt, va_list ap)
{
        size_t room = sizeof(l->text) - l->len;
        int n;

        if (l->cut)
                return;
        n = vsnprintf(l->text + l->len, room, fmt, ap);
        if (n < 0)
                l->text[l->len] = '\0'; /* an argument that cannot be converted: leave that part away */
        else if ((size_t) n >= room) {
                l->len = sizeof(l->text) - 1;
                l->cut = true;
        } else
                l->len += (size_t) n;
}

static void BLKUP_PRINTF(2, 3) append(struct line *l, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        append_v(l, fmt, ap);
        va_end(ap);
}

/* Messages with a remedy; NULL: the C library's text is enough. The small build has none. */
static const char *known_text(int error)
{
        if (BLKUP_IS_SMALL)
                return NULL;
        switch (error < 0 ? -error : error) {
        case EMFILE:
                return "Too many open files: this process may open no more, raise ulimit -n";
        case ENFILE:
                return "Too many open files in system: raise the sysctl fs.file-max";
        case ENOMEM:
                return "Cannot allocate memory: free some, or raise ulimit -v or the limit of the cgroup";
        case ENOSYS:
                return "Function not implemented: this kernel lacks a system call, or a filter refuses it";
        default:
                return NULL;
        }
}

const char *blkup_error_text(int error)
{
        const char *known = known_text(error);

        return known ? known : strerror(error < 0 ? -error : error);
}

/* %m is thread-safe in glibc and musl alike; strerror() is not everywhere, and strerror_r() has two types. */
static void append_errno(struct line *l, int code)
{
        const char *known = known_text(code);

        errno = code < 0 ? -code : code;
        if (known)
                append(l, ": %s", known);
        else
                append(l, ": %m");
}

static void publish(struct blkup_error *err, int code, struct line *l)
{
        static const char dots[] = "...";

        flatten(l->text, l->len);
        if (l->cut) {
                size_t at = l->len - (sizeof(dots) - 1);

                /* Never leave half a character before the dots. Ends: a UTF-8 character has at most three
                 * tail bytes. */
                for (unsigned i = 0; i < 3 && ((unsigned char) l->text[at] & 0xc0) == 0x80; i++)
                        at--;
                memcpy(l->text + at, dots, sizeof(dots));
                l->len = at + sizeof(dots) - 1;
        }
        err->code = code;
        memcpy(err->message, l->text, l->len + 1);
}

int blkup_fail(struct blkup_error *err, int code, const char *fmt, ...)
{
        struct line l = { .len = 0 };
        int saved = errno;
        va_list ap;

        if (!err)
                return code;
        va_start(ap, fmt);
        append_v(&l, fmt, ap);
        va_end(ap);
        publish(err, code, &l);
        errno = saved;
        return code;
}

int blkup_fail_errno(struct blkup_error *err, int code, const char *fmt, ...)
{
        struct line l = { .len = 0 };
        int saved = errno;
        va_list ap;

        if (!err)
                return code;
        va_start(ap, fmt);
        append_v(&l, fmt, ap);
        va_end(ap);
        append_errno(&l, code);
        publish(err, code, &l);
        errno = saved;
        return code;
}

int blkup_wrap(struct blkup_error *err, int code, const char *fmt, ...)
{
        struct line l = { .len = 0 };
        int saved = errno;
        va_list ap;

        if (!err)
                return code;
        va_start(ap, fmt);
        append_v(&l, fmt, ap);
        va_end(ap);
        if (err->message[0] != '\0')
                append(&l, ": %s", err->message);
        else
                append_errno(&l, code);
        publish(err, code, &l);
        errno = saved;
        return code;
}
