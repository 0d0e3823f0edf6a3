/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "modules/sign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "host/hostfile.h"
#include "modules/unpack.h"

#define MARK          "~Module signature appended~\n"
#define MARK_LEN      28u
#define TRAILER       12u /* algo, hash, id_type, signer_len, key_id_len, 3 of padding, sig_len big-endian */
#define PKEY_ID_PKCS7 2u
#define MAX_KEYS      256u
#define MAX_LIMBS     128u /* 8192 bits */
#define MAX_KEY_FILE  (256u << 20)

/* ---- DER: tag, length, contents ---- */

struct der {
        struct blkup_bytes rest;
};

/* The next element of d: its tag and contents; whole: with tag and length. */
static bool der_next(struct der *d, uint8_t *ret_tag, struct blkup_bytes *ret, struct blkup_bytes *ret_whole)
{
        struct blkup_bytes b = d->rest;
        size_t head = 2, len;

        if (b.len < 2)
                return false;
        len = b.data[1];
        if (len >= 0x80) {
                unsigned n = len & 0x7f;

                if (n == 0 || n > 4 || b.len < 2 + n)
                        return false;
                len = 0;
                for (unsigned i = 0; i < n; i++)
                        len = len << 8 | b.data[2 + i];
                head += n;
        }
        if (!blkup_sub_bytes(b, head, len, ret))
                return false;
        *ret_tag = b.data[0];
        if (ret_whole && !blkup_sub_bytes(b, 0, head + len, ret_whole))
                return false;
        return blkup_sub_bytes(b, head + len, b.len - head - len, &d->rest);
}

/* The next element, which must have this tag. */
static bool der_take(struct der *d, uint8_t tag, struct blkup_bytes *ret)
{
        uint8_t t;

        return der_next(d, &t, ret, NULL) && t == tag;
}

static bool is_bytes(struct blkup_bytes b, const void *p, size_t n)
{
        return b.len == n && memcmp(b.data, p, n) == 0;
}

static bool is_equal(struct blkup_bytes a, struct blkup_bytes b)
{
        return is_bytes(a, b.data, b.len);
}

/* ---- RSA: signature ^ e mod n ---- */

struct key {
        struct blkup_bytes issuer, serial; /* in the file's bytes */
        uint64_t n[MAX_LIMBS];
        size_t n_limbs;
        uint64_t e;
};

struct blkup_keys {
        uint8_t *file;
        size_t file_len;
        struct key *v;
        size_t n;
};

static bool load_number(struct blkup_bytes b, uint64_t to[MAX_LIMBS], size_t *ret_limbs)
{
        while (b.len && *b.data == 0) {
                b.data++;
                b.len--;
        }
        if (b.len == 0 || b.len > MAX_LIMBS * 8)
                return false;
        memset(to, 0, MAX_LIMBS * sizeof(*to));
        for (size_t i = 0; i < b.len; i++)
                to[i / 8] |= (uint64_t) b.data[b.len - 1 - i] << (8 * (i % 8));
        *ret_limbs = (b.len + 7) / 8;
        return true;
}

static int compare(const uint64_t *a, const uint64_t *b, size_t k)
{
        for (size_t i = k; i-- > 0;)
                if (a[i] != b[i])
                        return a[i] < b[i] ? -1 : 1;
        return 0;
}

static void subtract(uint64_t *a, const uint64_t *b, size_t k)
{
        uint64_t borrow = 0;

        for (size_t i = 0; i < k; i++) {
                unsigned __int128 d = (unsigned __int128) a[i] - b[i] - borrow;

                a[i] = (uint64_t) d;
                borrow = (uint64_t) (d >> 64) & 1;
        }
}

/* Montgomery's product: a * b / 2^(64 k) mod n. Source: Koç, Acar, Kaliski 1996, the method CIOS. */
static void multiply(uint64_t *ret, const uint64_t *a, const uint64_t *b, const struct key *key, uint64_t n0)
{
        uint64_t t[MAX_LIMBS + 2] = { 0 };
        size_t k = key->n_limbs;

        for (size_t i = 0; i < k; i++) {
                unsigned __int128 c = 0;
                uint64_t m;

                for (size_t j = 0; j < k; j++) {
                        c += (unsigned __int128) a[j] * b[i] + t[j];
                        t[j] = (uint64_t) c;
                        c >>= 64;
                }
                c += t[k];
                t[k] = (uint64_t) c;
                t[k + 1] = (uint64_t) (c >> 64);
                m = t[0] * n0;
                c = (unsigned __int128) m * key->n[0] + t[0];
                c >>= 64;
                for (size_t j = 1; j < k; j++) {
                        c += (unsigned __int128) m * key->n[j] + t[j];
                        t[j - 1] = (uint64_t) c;
                        c >>= 64;
                }
                c += t[k];
                t[k - 1] = (uint64_t) c;
                t[k] = t[k + 1] + (uint64_t) (c >> 64);
        }
        if (t[k] || compare(t, key->n, k) >= 0)
                subtract(t, key->n, k);
        memcpy(ret, t, k * sizeof(*ret));
}

/* s ^ e mod n, big-endian, into out of n's length. false: no number below n. */
static bool power(const struct key *key, struct blkup_bytes s, uint8_t *out)
{
        uint64_t base[MAX_LIMBS], one[MAX_LIMBS] = { 1 }, r2[MAX_LIMBS] = { 0 }, acc[MAX_LIMBS], n0 = 1;
        size_t k = key->n_limbs, limbs = 0;
        int top = 63;

        if (!load_number(s, base, &limbs) || limbs > k || compare(base, key->n, k) >= 0)
                return false;
        /* -1/n mod 2^64, by Newton: each turn doubles the right bits. */
        for (unsigned i = 0; i < 6; i++)
                n0 *= 2 - key->n[0] * n0;
        n0 = -n0;
        /* 2^(128 k) mod n by doubling. */
        r2[0] = 1;
        for (size_t i = 0; i < 128 * k; i++) {
                uint64_t carry = r2[k - 1] >> 63;

                for (size_t j = k; j-- > 1;)
                        r2[j] = r2[j] << 1 | r2[j - 1] >> 63;
                r2[0] <<= 1;
                if (carry || compare(r2, key->n, k) >= 0)
                        subtract(r2, key->n, k);
        }
        multiply(base, base, r2, key, n0);
        memcpy(acc, base, sizeof(acc));
        while (top > 0 && !(key->e >> top & 1))
                top--;
        while (top-- > 0) {
                multiply(acc, acc, acc, key, n0);
                if (key->e >> top & 1)
                        multiply(acc, acc, base, key, n0);
        }
        multiply(acc, acc, one, key, n0);
        for (size_t i = 0; i < k * 8; i++)
                out[k * 8 - 1 - i] = (uint8_t) (acc[i / 8] >> (8 * (i % 8)));
        return true;
}

/* PKCS#1 v1.5 with SHA-256 (RFC 8017, 9.2): 00 01 FF.. 00, then the digest with its name. */
static bool is_signed_by(const struct key *key, struct blkup_bytes signature, const uint8_t digest[32])
{
        static const uint8_t name[] = { 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                        0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20 };
        uint8_t m[MAX_LIMBS * 8];
        size_t n = key->n_limbs * 8, tail = sizeof(name) + 32;

        if (n < tail + 11 || !power(key, signature, m))
                return false;
        if (m[0] != 0 || m[1] != 1 || m[n - tail - 1] != 0)
                return false;
        for (size_t i = 2; i < n - tail - 1; i++)
                if (m[i] != 0xff)
                        return false;
        return memcmp(m + n - tail, name, sizeof(name)) == 0 && memcmp(m + n - 32, digest, 32) == 0;
}

/* ---- keys ---- */

/* A certificate at the start of b? */
static bool read_certificate(struct blkup_bytes b, struct key *ret)
{
        static const uint8_t rsa[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01 };
        struct blkup_bytes cert, tbs, skip, spki, algorithm, oid, bits, pair, n, e;
        struct der d = { b };
        uint8_t tag;

        if (!der_take(&d, 0x30, &cert))
                return false;
        d.rest = cert;
        if (!der_take(&d, 0x30, &tbs))
                return false;
        d.rest = tbs;
        if (!der_next(&d, &tag, &skip, NULL))
                return false;
        if (tag == 0xa0) { /* version; absent in version 1 */
                if (!der_take(&d, 0x02, &ret->serial))
                        return false;
        } else if (tag == 0x02) {
                ret->serial = skip;
        } else {
                return false;
        }
        if (!der_take(&d, 0x30, &skip) || !der_take(&d, 0x30, &ret->issuer) || !der_take(&d, 0x30, &skip) ||
            !der_take(&d, 0x30, &skip) || !der_take(&d, 0x30, &spki))
                return false;
        d.rest = spki;
        if (!der_take(&d, 0x30, &algorithm) || !der_take(&d, 0x03, &bits) || bits.len < 2 ||
            bits.data[0] != 0)
                return false;
        d.rest = algorithm;
        if (!der_take(&d, 0x06, &oid) || !is_bytes(oid, rsa, sizeof(rsa)))
                return false;
        if (!blkup_sub_bytes(bits, 1, bits.len - 1, &d.rest) || !der_take(&d, 0x30, &pair))
                return false;
        d.rest = pair;
        if (!der_take(&d, 0x02, &n) || !der_take(&d, 0x02, &e) || !load_number(n, ret->n, &ret->n_limbs) ||
            !(ret->n[0] & 1) || e.len == 0 || e.len > 8)
                return false;
        ret->e = 0;
        for (size_t i = 0; i < e.len; i++)
                ret->e = ret->e << 8 | e.data[i];
        return ret->e > 1;
}

static int add_key(struct blkup_keys *k, const struct key *key)
{
        struct key *grown;

        for (size_t i = 0; i < k->n; i++)
                if (is_equal(k->v[i].serial, key->serial) && is_equal(k->v[i].issuer, key->issuer))
                        return 0;
        if (k->n == MAX_KEYS)
                return -E2BIG;
        grown = reallocarray(k->v, k->n + 1, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        k->v = grown;
        k->v[k->n++] = *key;
        return 0;
}

/* Every place that could begin a certificate of 256 bytes to 64 KiB. */
static int scan_keys(struct blkup_keys *k)
{
        struct blkup_bytes b = { .data = k->file, .len = k->file_len };
        size_t at = 0;
        int r = 0;

        while (r == 0 && at + 8 < b.len) { /* ends: at grows */
                const uint8_t *p = memchr(b.data + at, 0x30, b.len - at);
                struct key key = { 0 };
                struct blkup_bytes here;

                if (!p)
                        break;
                at = (size_t) (p - b.data);
                if (blkup_u8_at(b, at + 1) == 0x82 && blkup_u8_at(b, at + 4) == 0x30 &&
                    blkup_u8_at(b, at + 5) == 0x82 && blkup_sub_bytes(b, at, b.len - at, &here) &&
                    read_certificate(here, &key))
                        r = add_key(k, &key);
                at++;
        }
        return r;
}

/* The kernel inside a bzImage. Source: the kernel's Documentation/x86/boot.rst: setup_sects at 0x1f1, "HdrS"
 * at 0x202, payload_offset at 0x248 counted from the protected-mode code, payload_length at 0x24c. */
static int unpack_kernel(struct blkup_keys *k)
{
        struct blkup_bytes b = { .data = k->file, .len = k->file_len }, payload;
        enum blkup_packing packing;
        uint8_t *out = NULL;
        size_t out_len = 0, start;
        int r;

        if (!blkup_equal_at(b, 0x202, "HdrS", 4))
                return 0;
        start = ((size_t) blkup_u8_at(b, 0x1f1) + 1) * 512 + blkup_le32_at(b, 0x248);
        if (!blkup_sub_bytes(b, start, blkup_le32_at(b, 0x24c), &payload))
                return -EBADMSG;
        packing = blkup_packing_of(payload.data, payload.len);
        if (packing == BLKUP_NOT_PACKED)
                return -EOPNOTSUPP;
        r = blkup_unpack(packing, payload.data, payload.len, &out, &out_len);
        if (r < 0)
                return r;
        free(k->file);
        k->file = out;
        k->file_len = out_len;
        return 0;
}

static int base64_value(uint8_t c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* PEM becomes DER in place: RFC 7468. What stands around the certificates is dropped. */
static void decode_pem(struct blkup_keys *k)
{
        static const char begin[] = "-----BEGIN CERTIFICATE-----";
        uint8_t *at = k->file, *end = k->file + k->file_len, *to = k->file;

        if (!memmem(k->file, k->file_len, begin, sizeof(begin) - 1))
                return;
        while ((at = memmem(at, (size_t) (end - at), begin, sizeof(begin) - 1))) { /* ends: at grows */
                uint32_t word = 0;
                unsigned bits = 0;

                for (at += sizeof(begin) - 1; at < end && *at != '-'; at++) {
                        int v = base64_value(*at);

                        if (v < 0)
                                continue;
                        word = word << 6 | (uint32_t) v;
                        bits += 6;
                        if (bits >= 8) {
                                bits -= 8;
                                *to++ = (uint8_t) (word >> bits);
                        }
                }
        }
        k->file_len = (size_t) (to - k->file);
}

int blkup_keys_load(const char *path, struct blkup_keys **ret, struct blkup_error *err)
{
        struct blkup_keys *k = calloc(1, sizeof(*k));
        char *text = NULL;
        int r = k ? blkup_host_read_named(path, MAX_KEY_FILE, &text, &k->file_len) : -ENOMEM;

        if (r == 0) {
                k->file = (uint8_t *) text;
                r = unpack_kernel(k);
        }
        if (r == 0) {
                decode_pem(k);
                r = scan_keys(k);
        }
        if (r == 0 && k->n == 0)
                r = -ENOKEY;
        if (r < 0) {
                (void) blkup_keys_free(k);
                return blkup_fail_errno(err, r, "keys of %s", path);
        }
        *ret = k;
        return 0;
}

struct blkup_keys *blkup_keys_free(struct blkup_keys *k)
{
        if (k) {
                free(k->file);
                free(k->v);
                free(k);
        }
        return NULL;
}

/* ---- a module's signature ---- */

struct message {
        struct blkup_bytes issuer, serial, digest_oid, signature;
        bool has_attributes, by_key_id;
};

static bool read_message(struct blkup_bytes b, struct message *m)
{
        static const uint8_t signed_data[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02 };
        struct blkup_bytes info, oid, content, data, skip, signers, signer, id, algorithm;
        struct der d = { b };
        uint8_t tag;

        if (!der_take(&d, 0x30, &info))
                return false;
        d.rest = info;
        if (!der_take(&d, 0x06, &oid) || !is_bytes(oid, signed_data, sizeof(signed_data)) ||
            !der_take(&d, 0xa0, &content))
                return false;
        d.rest = content;
        if (!der_take(&d, 0x30, &data))
                return false;
        d.rest = data;
        if (!der_take(&d, 0x02, &skip) || !der_take(&d, 0x31, &skip) || !der_take(&d, 0x30, &skip))
                return false;
        do { /* certificates [0] and revocations [1] may stand before the signers; ends: the bytes do */
                if (!der_next(&d, &tag, &signers, NULL))
                        return false;
        } while (tag == 0xa0 || tag == 0xa1);
        if (tag != 0x31)
                return false;
        d.rest = signers;
        if (!der_take(&d, 0x30, &signer))
                return false;
        d.rest = signer;
        if (!der_take(&d, 0x02, &skip) || !der_next(&d, &tag, &id, NULL))
                return false;
        m->by_key_id = tag == 0x80;
        if (tag == 0x30) {
                struct der i = { id };

                if (!der_take(&i, 0x30, &m->issuer) || !der_take(&i, 0x02, &m->serial))
                        return false;
        } else if (tag != 0x80) {
                return false;
        }
        if (!der_take(&d, 0x30, &algorithm))
                return false;
        {
                struct der a = { algorithm };

                if (!der_take(&a, 0x06, &m->digest_oid))
                        return false;
        }
        if (!der_next(&d, &tag, &skip, NULL))
                return false;
        if (tag == 0xa0) { /* attributes that are signed instead of the file */
                m->has_attributes = true;
                if (!der_next(&d, &tag, &skip, NULL))
                        return false;
        }
        return tag == 0x30 && der_take(&d, 0x04, &m->signature);
}

int blkup_check_signature(struct blkup_bytes file, const struct blkup_keys *keys, size_t *ret_len)
{
        static const uint8_t sha256[] = { 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01 };
        struct message m = { 0 };
        struct blkup_bytes pkcs7;
        uint8_t digest[32];
        size_t len, sig_len;
        bool has_digest = false;

        *ret_len = file.len;
        if (file.len <= MARK_LEN || !blkup_equal_at(file, file.len - MARK_LEN, MARK, MARK_LEN))
                return -ENODATA;
        len = file.len - MARK_LEN;
        *ret_len = len;
        if (len <= TRAILER)
                return -EBADMSG;
        sig_len = blkup_be32_at(file, len - 4);
        if (sig_len >= len - TRAILER)
                return -EBADMSG;
        if (blkup_u8_at(file, len - TRAILER + 2) != PKEY_ID_PKCS7)
                return -ENOPKG;
        if (!blkup_is_filled(file, len - TRAILER, 2, 0) || !blkup_is_filled(file, len - TRAILER + 3, 5, 0))
                return -EBADMSG;
        len -= TRAILER + sig_len;
        *ret_len = len;
        if (!blkup_sub_bytes(file, len, sig_len, &pkcs7) || !read_message(pkcs7, &m))
                return -EBADMSG;
        if (!keys)
                return 0;
        if (m.has_attributes || m.by_key_id || !is_bytes(m.digest_oid, sha256, sizeof(sha256)))
                return -ENOPKG;
        for (size_t i = 0; i < keys->n; i++) {
                const struct key *k = &keys->v[i];

                if (!is_equal(k->serial, m.serial) || !is_equal(k->issuer, m.issuer))
                        continue;
                if (!has_digest)
                        blkup_sha256(file.data, len, digest);
                has_digest = true;
                return is_signed_by(k, m.signature, digest) ? 0 : -EKEYREJECTED;
        }
        return -ENOKEY;
}
