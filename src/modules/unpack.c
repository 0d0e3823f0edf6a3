/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if BLKUP_MODULES_DLOPEN
#include <dlfcn.h>
#include <pthread.h>
#endif
#if BLKUP_HAVE_LZMA
#include <lzma.h>
#endif
#if BLKUP_HAVE_ZLIB
#include <zlib.h>
#endif
#if BLKUP_HAVE_ZSTD
#include <zstd.h>
#endif

enum blkup_packing blkup_packing_of(const void *p, size_t n)
{
        /* RFC 1952; the .xz file format 1.2; RFC 8878 */
        if (n >= 2 && memcmp(p, "\x1f\x8b", 2) == 0)
                return BLKUP_GZIP;
        if (n >= 6 && memcmp(p, "\xfd" "7zXZ\0", 6) == 0)
                return BLKUP_XZ;
        if (n >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0)
                return BLKUP_ZSTD;
        return BLKUP_NOT_PACKED;
}

const char *blkup_packing_name(enum blkup_packing k)
{
        static const char *const names[BLKUP_PACKINGS] = { "", "gzip", "xz", "zstd" };

        return names[k];
}

struct output {
        uint8_t *p;
        size_t n, cap;
};

/* Room for more output. Ends of the loops that call it: the limit. */
__attribute__((unused)) static int grow(struct output *o, size_t first)
{
        size_t cap = o->cap ? o->cap * 2 : first;
        uint8_t *p;

        if (o->cap >= BLKUP_UNPACK_MAX_BYTES)
                return -EFBIG;
        if (cap > BLKUP_UNPACK_MAX_BYTES)
                cap = BLKUP_UNPACK_MAX_BYTES;
        p = realloc(o->p, cap);
        if (!p)
                return -ENOMEM;
        o->p = p;
        o->cap = cap;
        return 0;
}

#if BLKUP_MODULES_DLOPEN

/* Opened once, never closed. */
static void *open_library(const char *name)
{
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

#if BLKUP_HAVE_LZMA
static struct {
        __typeof__(&lzma_stream_decoder) decoder;
        __typeof__(&lzma_code) code;
        __typeof__(&lzma_end) end;
} xz;

static void open_xz(void)
{
        void *l = open_library("liblzma.so.5");

        if (!l)
                return;
        *(void **) &xz.code = dlsym(l, "lzma_code");
        *(void **) &xz.end = dlsym(l, "lzma_end");
        if (xz.code && xz.end)
                *(void **) &xz.decoder = dlsym(l, "lzma_stream_decoder");
}

static int unpack_xz(const void *p, size_t n, struct output *o)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        lzma_stream s = LZMA_STREAM_INIT;
        lzma_ret got = LZMA_OK;
        int r = 0;

        (void) pthread_once(&once, open_xz);
        if (!xz.decoder)
                return -EOPNOTSUPP;
        if (xz.decoder(&s, 256u << 20, 0) != LZMA_OK)
                return -ENOMEM;
        s.next_in = p;
        s.avail_in = n;
        while (r == 0 && got == LZMA_OK) {
                if (o->n == o->cap)
                        r = grow(o, n * 5 + 65536);
                if (r < 0)
                        break;
                s.next_out = o->p + o->n;
                s.avail_out = o->cap - o->n;
                got = xz.code(&s, LZMA_FINISH);
                o->n = o->cap - s.avail_out;
        }
        xz.end(&s);
        if (r < 0 || got == LZMA_STREAM_END)
                return r;
        return got == LZMA_MEM_ERROR || got == LZMA_MEMLIMIT_ERROR ? -ENOMEM : -EBADMSG;
}
#endif

#if BLKUP_HAVE_ZLIB
static struct {
        int (*init)(z_streamp s, int bits, const char *version, int size);
        __typeof__(&inflate) inflate;
        __typeof__(&inflateEnd) end;
} gz;

static void open_gz(void)
{
        void *l = open_library("libz.so.1");

        if (!l)
                return;
        *(void **) &gz.inflate = dlsym(l, "inflate");
        *(void **) &gz.end = dlsym(l, "inflateEnd");
        if (gz.inflate && gz.end)
                *(void **) &gz.init = dlsym(l, "inflateInit2_");
}

static int unpack_gz(const void *p, size_t n, struct output *o)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        z_stream s = { 0 };
        int got = Z_OK, r = 0;

        (void) pthread_once(&once, open_gz);
        if (!gz.init)
                return -EOPNOTSUPP;
        if (n > BLKUP_UNPACK_MAX_BYTES)
                return -EFBIG;
        if (gz.init(&s, 16 + 15, ZLIB_VERSION, (int) sizeof(s)) !=
            Z_OK) /* 16: a gzip header; 15: any window */
                return -ENOMEM;
        s.next_in = (z_const Bytef *) (uintptr_t) p;
        s.avail_in = (uInt) n;
        while (r == 0 && got == Z_OK) {
                if (o->n == o->cap)
                        r = grow(o, n * 4 + 65536);
                if (r < 0)
                        break;
                s.next_out = o->p + o->n;
                s.avail_out = (uInt) (o->cap - o->n);
                got = gz.inflate(&s, Z_NO_FLUSH);
                o->n = o->cap - s.avail_out;
                if (got == Z_BUF_ERROR && s.avail_out == 0)
                        got = Z_OK;
        }
        (void) gz.end(&s);
        if (r < 0 || got == Z_STREAM_END)
                return r;
        return got == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}
#endif

#if BLKUP_HAVE_ZSTD
static struct {
        __typeof__(&ZSTD_createDStream) create;
        __typeof__(&ZSTD_decompressStream) decompress;
        __typeof__(&ZSTD_freeDStream) end;
        __typeof__(&ZSTD_isError) is_error;
} zstd;

static void open_zstd(void)
{
        void *l = open_library("libzstd.so.1");

        if (!l)
                return;
        *(void **) &zstd.decompress = dlsym(l, "ZSTD_decompressStream");
        *(void **) &zstd.end = dlsym(l, "ZSTD_freeDStream");
        *(void **) &zstd.is_error = dlsym(l, "ZSTD_isError");
        if (zstd.decompress && zstd.end && zstd.is_error)
                *(void **) &zstd.create = dlsym(l, "ZSTD_createDStream");
}

static int unpack_zstd(const void *p, size_t n, struct output *o)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        ZSTD_inBuffer in = { p, n, 0 };
        ZSTD_DStream *s;
        size_t got = 1;
        int r = 0;

        (void) pthread_once(&once, open_zstd);
        if (!zstd.create)
                return -EOPNOTSUPP;
        s = zstd.create();
        if (!s)
                return -ENOMEM;
        /* got 0: the frame is complete. */
        while (r == 0 && got != 0) {
                ZSTD_outBuffer out;

                if (o->n == o->cap)
                        r = grow(o, n * 4 + 65536);
                if (r < 0)
                        break;
                out = (ZSTD_outBuffer){ o->p, o->cap, o->n };
                got = zstd.decompress(s, &out, &in);
                if (zstd.is_error(got) || (got != 0 && out.pos == o->n && in.pos == in.size))
                        r = -EBADMSG;
                o->n = out.pos;
        }
        (void) zstd.end(s);
        return r;
}
#endif

#endif /* BLKUP_MODULES_DLOPEN */

int blkup_unpack(enum blkup_packing k, const void *p, size_t n, uint8_t **ret, size_t *ret_n)
{
        struct output o = { 0 };
        int r = -EOPNOTSUPP;

        (void) p;
        (void) n;
#if BLKUP_MODULES_DLOPEN
#if BLKUP_HAVE_LZMA
        if (k == BLKUP_XZ)
                r = unpack_xz(p, n, &o);
#endif
#if BLKUP_HAVE_ZLIB
        if (k == BLKUP_GZIP)
                r = unpack_gz(p, n, &o);
#endif
#if BLKUP_HAVE_ZSTD
        if (k == BLKUP_ZSTD)
                r = unpack_zstd(p, n, &o);
#endif
#endif
        if (k == BLKUP_NOT_PACKED)
                r = -EINVAL;
        if (r < 0) {
                free(o.p);
                return r;
        }
        *ret = o.p;
        *ret_n = o.n;
        return 0;
}
