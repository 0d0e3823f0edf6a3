/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signatures of modules: the trailer (include/linux/module_signature.h), the PKCS#7 message in it (RFC 2315),
 * and keys from certificates (RFC 5280) in DER or PEM, or from a kernel image that holds them. RSA with
 * SHA-256; other kinds are told as unknown, not as wrong.
 */
#ifndef BLKUP_MODULES_SIGN_H
#define BLKUP_MODULES_SIGN_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

struct blkup_keys; /* read-only once loaded; threads may share it */

/* All RSA keys in the file. -ENOKEY: there is none. -EOPNOTSUPP: a kernel that is packed in a way nothing
 * here unpacks. */
BLKUP_MUST_CHECK int blkup_keys_load(const char *path, struct blkup_keys **ret, struct blkup_error *err);
struct blkup_keys *blkup_keys_free(struct blkup_keys *k); /* NULL-safe, returns NULL */

/*
 * Looks at the end of a module's bytes. *ret_len: how much of it is the module.
 * 0: signed, and right as far as keys tell (NULL: not looked at); -ENODATA: not signed; -EBADMSG: the trailer
 * or the message makes no sense; -ENOPKG: a kind that is not known here; -ENOKEY: by a key that keys do not
 * have; -EKEYREJECTED: the bytes are not those that were signed.
 */
BLKUP_MUST_CHECK int blkup_check_signature(struct blkup_bytes file, const struct blkup_keys *keys,
                                           size_t *ret_len);

#endif
