/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Why a mount failed, as one sentence: the facts of the mount (which call, which errno, what its context and
 * the kernel's log said) joined with what is on the device and what the machine says of it.
 *
 * An explainer reads what it needs when it needs it (the mounts and the block devices once); it belongs to
 * one thread. Nothing is asked of it for a mount that worked. Sentences hold untrusted bytes: encode them.
 */
#ifndef BLKUP_EXPLAIN_H
#define BLKUP_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>

#include <blkup/mount.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct blkup_explainer;

/* A file system that takes longer than this to be created is worth a word. */
#define BLKUP_EXPLAIN_SLOW_NS UINT64_C(2000000000)

/* root: a folder that stands for / when the machine is asked; NULL or "": the machine itself. The answer
 * NULL: out of memory. */
struct blkup_explainer *blkup_explainer_new(const char *root);
struct blkup_explainer *blkup_explainer_unref(struct blkup_explainer *e); /* NULL-safe, returns NULL */

/* The cause of a failed mount, without newline; always something. */
void blkup_explain_mount(struct blkup_explainer *e, const struct blkup_mount_request *q,
                         const struct blkup_mount_result *r, char *ret, size_t cap);
/* Of a failed umount. */
void blkup_explain_umount(struct blkup_explainer *e, const struct blkup_mount_result *r, char *ret,
                          size_t cap);
/* What is worth saying of one that worked ("write-protected: mounted read-only"); "" = nothing. */
void blkup_explain_notes(const struct blkup_mount_result *r, char *ret, size_t cap);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
