/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "cli/size.h"

static int digit_value(char c, unsigned base)
{
        unsigned v;

        if (c >= '0' && c <= '9')
                v = (unsigned) (c - '0');
        else if (c >= 'a' && c <= 'f')
                v = (unsigned) (c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
                v = (unsigned) (c - 'A') + 10;
        else
                return -1;
        return v < base ? (int) v : -1;
}

/* The suffix as a power (0 = none) of 1024 or 1000. -EINVAL when it is no suffix. */
static int parse_suffix(const char *s, unsigned *ret_base, unsigned *ret_power)
{
        static const char letters[] = "KMGTPE";
        const char *at;

        *ret_base = 1024;
        *ret_power = 0;
        if (!*s)
                return 0;
        at = strchr(letters, *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
        if (!at)
                return -EINVAL;
        *ret_power = (unsigned) (at - letters) + 1;
        s++;
        if (strcmp(s, "B") == 0 || strcmp(s, "b") == 0)
                *ret_base = 1000;
        else if (*s && strcmp(s, "iB") != 0 && strcmp(s, "ib") != 0)
                return -EINVAL;
        return 0;
}

/* unit * 0.DIGITS, rounded down. From the last digit to the first: rounding each step down gives the same as
 * rounding once at the end, because what is added is whole. No overflow: unit <= 2^60, so 9 * unit + unit <
 * 2^64. */
static uint64_t fraction_of(uint64_t unit, const char *digits, size_t n)
{
        uint64_t sum = 0;

        while (n > 0)
                sum = (sum + unit * (uint64_t) (digits[--n] - '0')) / 10;
        return sum;
}

int blkup_cli_parse_size(const char *text, uint64_t *ret)
{
        const char *at = text + blkup_ltrim(text, strlen(text)), *fraction = NULL;
        uint64_t number = 0, unit = 1;
        unsigned base = 10, suffix_base, power;
        size_t n_fraction = 0;
        bool overflow = false;
        int r;

        if (*at == '+')
                at++;
        if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && digit_value(at[2], 16) >= 0) {
                base = 16;
                at += 2;
        } else if (at[0] == '0' && digit_value(at[1], 8) >= 0)
                base = 8;
        if (digit_value(*at, base) < 0)
                return -EINVAL;
        for (; digit_value(*at, base) >= 0; at++)
                if (!blkup_mul(number, base, &number) ||
                    !blkup_add(number, (uint64_t) digit_value(*at, base), &number))
                        overflow = true;
        if (*at == '.' && base == 10) {
                fraction = ++at;
                while (digit_value(*at, 10) >= 0)
                        at++;
                n_fraction = (size_t) (at - fraction);
        }
        r = parse_suffix(at, &suffix_base, &power);
        if (r < 0 || (fraction && power == 0))
                return -EINVAL;
        while (power-- > 0)
                unit *= suffix_base; /* at most 1024^6 */
        if (overflow || !blkup_mul(number, unit, &number) ||
            !blkup_add(number, fraction ? fraction_of(unit, fraction, n_fraction) : 0, &number))
                return -ERANGE;
        *ret = number;
        return 0;
}

void blkup_cli_format_size(uint64_t bytes, char *out, size_t cap)
{
        static const char letters[] = "BKMGTPE";
        uint64_t unit = 1, tenths;
        unsigned power = 0;

        while (power < 6 && bytes / unit >= 1024) {
                unit <<= 10;
                power++;
        }
        /* Rounded to the nearest tenth; in two parts, so that 16 EiB does not overflow. */
        tenths = bytes / unit * 10 + (power == 0 ? 0 : (bytes % unit / (unit / 1024) * 10 + 512) / 1024);
        if (tenths >= 10240 && power < 6) {
                tenths = 10;
                power++;
        }
        if (tenths % 10 == 0)
                snprintf(out, cap, "%" PRIu64 "%c", tenths / 10, letters[power]);
        else
                snprintf(out, cap, "%" PRIu64 ".%" PRIu64 "%c", tenths / 10, tenths % 10, letters[power]);
}
