/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host/hostfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"

#define ALWAYS        (O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
/* "..": the kernel gives up (EAGAIN) when something was renamed or mounted meanwhile, anywhere. */
#define OPENAT2_TRIES 100

static int open_plainly(const char *root, const char *path, int flags)
{
        BLKUP_CLEANUP_FREE char *whole = NULL;
        size_t n;
        int fd;

        if (!root)
                root = "";
        n = strlen(root) + 1 + strlen(path) + 1;
        whole = malloc(n);
        if (!whole)
                return -ENOMEM;
        (void) snprintf(whole, n, "%s/%s", root, path);
        fd = open(whole, flags);
        return fd < 0 ? -errno : fd;
}

int blkup_host_open(const char *root, const char *path, int flags)
{
        BLKUP_CLEANUP_CLOSE int root_fd = -1;
        struct open_how how;
        long fd = -1;

        flags |= ALWAYS;
        if (!blkup_host_is_fake(root))
                return open_plainly(root, path, flags);
        root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        how = (struct open_how){ .flags = (uint64_t) flags,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
        if (flags & O_PATH) /* the only flags that openat2() takes beside O_PATH */
                how.flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        for (unsigned i = 0; i < OPENAT2_TRIES; i++) {
                fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
                if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        if (fd >= 0)
                return (int) fd;
        if (errno == ENOSYS || errno == EPERM)
                return open_plainly(root, path, flags);
        return -errno;
}

int blkup_host_readlink(const char *root, const char *path, char *ret, size_t cap)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        ssize_t n;

        if (!blkup_host_is_fake(root)) {
                char whole[PATH_MAX];

                if (snprintf(whole, sizeof(whole), "/%s", path) >= (int) sizeof(whole))
                        return -ENAMETOOLONG;
                n = readlink(whole, ret, cap);
        } else {
                fd = blkup_host_open(root, path, O_PATH | O_NOFOLLOW);
                if (fd < 0)
                        return fd;
                n = readlinkat(fd, "", ret, cap);
                if (n < 0 && errno == ENOENT) /* "" of what is no link */
                        errno = EINVAL;
        }
        if (n < 0)
                return -errno;
        if ((size_t) n >= cap)
                return -ENAMETOOLONG;
        ret[n] = '\0';
        return 0;
}

static ssize_t read_retrying(int fd, void *to, size_t n)
{
        ssize_t got;

        do
                got = read(fd, to, n);
        while (got < 0 && errno == EINTR);
        return got;
}

int blkup_host_read_fd(int fd, size_t max_bytes, char **ret, size_t *ret_len)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t len = 0, cap = 16384;

        text = malloc(cap);
        if (!text)
                return -ENOMEM;
        /* Ends: each turn reads at least a byte, and there are at most max_bytes + 1 of them. */
        for (;;) {
                ssize_t got;

                if (cap - len < 2) {
                        char *grown;

                        if (cap > SIZE_MAX / 2)
                                return -EFBIG;
                        grown = realloc(text, cap * 2);
                        if (!grown)
                                return -ENOMEM;
                        text = grown;
                        cap *= 2;
                }
                got = read_retrying(fd, text + len, cap - len - 1);
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                len += (size_t) got;
                if (len > max_bytes)
                        return -EFBIG;
        }
        text[len] = '\0';
        *ret = BLKUP_TAKE(text);
        *ret_len = len;
        return 0;
}

int blkup_host_read(const char *root, const char *path, size_t max_bytes, char **ret, size_t *ret_len)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;

        fd = blkup_host_open(root, path, O_RDONLY);
        if (fd < 0)
                return fd;
        return blkup_host_read_fd(fd, max_bytes, ret, ret_len);
}

int blkup_host_read_named(const char *path, size_t max_bytes, char **ret, size_t *ret_len)
{
        BLKUP_CLEANUP_CLOSE int fd = open(path, O_RDONLY | ALWAYS);

        if (fd < 0)
                return -errno;
        /* Opening a FIFO that nobody writes must not wait; reading what a program still writes must. */
        (void) fcntl(fd, F_SETFL, O_RDONLY);
        return blkup_host_read_fd(fd, max_bytes, ret, ret_len);
}

int blkup_host_attribute(int dir_fd, const char *name, char *buf, size_t cap)
{
        BLKUP_CLEANUP_CLOSE int fd = -1;
        size_t len = 0;

        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | ALWAYS);
        if (fd < 0)
                return -errno;
        /* sysfs answers in one read, which ends with a newline: no second one for the end. A plain file may
         * need more. Ends: each turn fills at least a byte of buf. */
        while (len < cap) {
                size_t room = cap - len;
                ssize_t got = read_retrying(fd, buf + len, room);

                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                len += (size_t) got;
                if ((size_t) got < room && buf[len - 1] == '\n')
                        break;
        }
        if (len >= cap)
                return -EFBIG;
        if (memchr(buf, '\0', len))
                return -EBADMSG;
        while (len > 0 && buf[len - 1] == '\n')
                len--;
        buf[len] = '\0';
        return (int) len;
}

bool blkup_host_number(const char *s, size_t n, uint64_t *ret)
{
        uint64_t v = 0;

        if (n == 0)
                return false;
        for (size_t i = 0; i < n; i++)
                if (s[i] < '0' || s[i] > '9' || !blkup_mul(v, 10, &v) ||
                    !blkup_add(v, (uint64_t) (s[i] - '0'), &v))
                        return false;
        *ret = v;
        return true;
}

bool blkup_host_number32(const char *s, size_t n, uint32_t *ret)
{
        uint64_t v;

        if (!blkup_host_number(s, n, &v) || v > UINT32_MAX)
                return false;
        *ret = (uint32_t) v;
        return true;
}

size_t blkup_host_numbers(const char *s, const char *between, uint64_t *ret, size_t n)
{
        size_t k = 0;

        for (; k < n; k++) {
                size_t len;

                s += strspn(s, between);
                len = strspn(s, "0123456789");
                if (!blkup_host_number(s, len, &ret[k]))
                        break;
                s += len;
        }
        return k;
}

bool blkup_host_devno(const char *s, size_t n, uint32_t *ret_major, uint32_t *ret_minor)
{
        const char *colon = memchr(s, ':', n);
        uint32_t high, low;
        size_t at;

        if (!colon)
                return false;
        at = (size_t) (colon - s);
        if (!blkup_host_number32(s, at, &high) || !blkup_host_number32(colon + 1, n - at - 1, &low))
                return false;
        *ret_major = high;
        *ret_minor = low;
        return true;
}

int blkup_host_attribute_u64(int dir_fd, const char *name, uint64_t *ret)
{
        char text[32]; /* 20 digits are the longest 64-bit number */
        int n = blkup_host_attribute(dir_fd, name, text, sizeof(text));

        if (n == -EFBIG)
                return -EBADMSG;
        if (n < 0)
                return n;
        return blkup_host_number(text, (size_t) n, ret) ? 0 : -EBADMSG;
}

int blkup_host_attribute_i64(int dir_fd, const char *name, int64_t *ret)
{
        char text[32];
        int n = blkup_host_attribute(dir_fd, name, text, sizeof(text));
        uint64_t v;
        bool minus;

        if (n == -EFBIG)
                return -EBADMSG;
        if (n < 0)
                return n;
        minus = n > 0 && text[0] == '-';
        if (!blkup_host_number(text + minus, (size_t) n - minus, &v) || v > (uint64_t) INT64_MAX)
                return -EBADMSG;
        *ret = minus ? -(int64_t) v : (int64_t) v;
        return 0;
}

size_t blkup_host_decode_octal(const char *from, size_t n, char *to, size_t cap)
{
        size_t len = 0;

        for (size_t i = 0; i < n; i++, len++) {
                char c = from[i];

                if (c == '\\' && n - i > 3 && from[i + 1] >= '0' && from[i + 1] <= '3' &&
                    from[i + 2] >= '0' && from[i + 2] <= '7' && from[i + 3] >= '0' && from[i + 3] <= '7') {
                        int v = (from[i + 1] - '0') << 6 | (from[i + 2] - '0') << 3 | (from[i + 3] - '0');

                        if (v != 0) { /* a NUL would cut the text */
                                c = (char) v;
                                i += 3;
                        }
                }
                if (len + 1 < cap)
                        to[len] = c; /* never ahead of from[i]: each step reads at least what it writes */
        }
        if (cap > 0)
                to[len < cap ? len : cap - 1] = '\0';
        return len;
}

void blkup_host_unescape(char *s)
{
        size_t n = strlen(s);

        (void) blkup_host_decode_octal(s, n, s, n + 1);
}

bool blkup_host_is_same_name(const char *a, const char *b)
{
        for (; *a && *b; a++, b++)
                if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b))
                        return false;
        return *a == *b;
}

int blkup_host_copy(const char *text, size_t n, size_t max, char **ret)
{
        char *copy;

        if (n > max)
                return -EFBIG;
        copy = malloc(n + 1);
        if (!copy)
                return -ENOMEM;
        if (n > 0)
                memcpy(copy, text, n);
        copy[n] = '\0';
        *ret = copy;
        return 0;
}

char *blkup_host_next_line(char **at, char *end, size_t max_line, bool *ret_good)
{
        char *line = *at, *newline;
        size_t n;

        if (line == end)
                return NULL;
        newline = memchr(line, '\n', (size_t) (end - line));
        n = (size_t) ((newline ? newline : end) - line);
        line[n] = '\0';
        *at = newline ? newline + 1 : end;
        *ret_good = n <= max_line && !memchr(line, '\0', n);
        return line;
}

char *blkup_host_next_column(char **at)
{
        char *column = *at + strspn(*at, " \t");
        size_t n = strcspn(column, " \t");

        *at = column + n + (column[n] != '\0');
        column[n] = '\0';
        return column;
}

int blkup_host_reserve(void **array, size_t *cap, size_t n, size_t size, size_t max)
{
        size_t grown_cap;
        void *grown;

        if (n < *cap)
                return 0;
        if (n >= max)
                return -E2BIG;
        grown_cap = *cap ? *cap * 2 : 32;
        if (grown_cap > max)
                grown_cap = max;
        grown = realloc(*array, grown_cap * size);
        if (!grown)
                return -ENOMEM;
        *array = grown;
        *cap = grown_cap;
        return 0;
}
