/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What load_module() does, done without loading, in its order, so that the first complaint is the kernel's.
 * Source: kernel/module/main.c, version.c, signing.c of 6.1, and answers of Debian's kernel to broken
 * modules: it refuses a symbol without an entry in __versions, which others let pass.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/hostfile.h"
#include "modules/check.h"
#include "trace/trace.h"

#define IGNORE_MODVERSIONS 1u /* include/uapi/linux/module.h */
#define IGNORE_VERMAGIC    2u
#define COMPRESSED_FILE    4u
#define KNOWN_FLAGS        7u

#define NOMEM 1 /* beside negative errnos of refusals */

/* One file on its way. */
struct way {
        const struct blkup_module_check *c;
        struct blkup_ko k;
        struct blkup_refusal *r;
        struct blkup_bytes versions, names;
        uint32_t *slots; /* versions by the hash of their names: index + 1 */
        size_t n_slots;
        bool uses_gpl_only;
        struct blkup_check_uses *uses;
};

/* ---- versions ---- */

static const char *version_name(const struct way *w, size_t i)
{
        return blkup_ko_text(w->versions, i * BLKUP_KO_VERSION + 8);
}

static int index_versions(struct way *w)
{
        size_t n = w->versions.len / BLKUP_KO_VERSION;

        for (w->n_slots = 16; w->n_slots < 2 * n; w->n_slots *= 2)
                ;
        w->slots = calloc(w->n_slots, sizeof(*w->slots));
        if (!w->slots)
                return NOMEM;
        /* From the end, so that the first of two equal names is found, as the kernel finds it. */
        for (size_t i = n; i-- > 0;) {
                const char *name = version_name(w, i);
                size_t at;

                if (!name)
                        continue;
                at = blkup_export_hash(name) & (w->n_slots - 1);
                while (w->slots[at] && strcmp(version_name(w, w->slots[at] - 1), name) != 0)
                        at = (at + 1) & (w->n_slots - 1);
                w->slots[at] = (uint32_t) i + 1;
        }
        return 0;
}

/* check_version(). 0: right, or not to be checked; 1: wrong; 2: no entry. */
static int check_version(const struct way *w, const char *name, uint32_t hash, const struct blkup_export *x)
{
        size_t at;

        if (!x->has_crc || !w->c->kernel.has_modversions)
                return 0;
        if (!w->slots)
                return w->c->kernel.has_force_load ? 0 : 1;
        for (at = hash & (w->n_slots - 1); w->slots[at];
             at = (at + 1) & (w->n_slots - 1)) { /* ends: half empty */
                size_t i = w->slots[at] - 1;

                if (strcmp(version_name(w, i), name) == 0)
                        return blkup_le64_at(w->versions, i * BLKUP_KO_VERSION) == x->crc ? 0 : 1;
        }
        return 2;
}

static int check_layout(struct way *w)
{
        static const char name[] = "module_layout";
        uint32_t hash = blkup_export_hash(name);
        const struct blkup_export *x = blkup_exports_find(&w->c->exports, name, hash);

        if (!x || check_version(w, name, hash, x) == 0)
                return 0;
        return blkup_refuse(w->r, -ENOEXEC, "modversions",
                            "disagrees about version of symbol module_layout: built for another "
                            "kernel");
}

/* ---- before symbols ---- */

static int check_vermagic(struct way *w)
{
        const struct blkup_check_kernel *k = &w->c->kernel;
        const char *has = blkup_ko_modinfo(&w->k, "vermagic", NULL), *want = k->vermagic, *full = has;

        if (w->c->o.flags & IGNORE_VERMAGIC)
                has = NULL;
        if (!has) {
                if (k->has_force_load)
                        return 0;
                return blkup_refuse(w->r, -ENOEXEC, "vermagic", "no version magic");
        }
        if (!*want)
                return 0;
        if (w->k.vers) { /* with versions of symbols the release is not compared */
                has += strcspn(has, " ");
                want += strcspn(want, " ");
        }
        if (strcmp(has, want) == 0)
                return 0;
        return blkup_refuse(w->r, -ENOEXEC, "vermagic", "version magic '%.120s' should be '%.120s'", full,
                            k->vermagic);
}

/* Neither may a section be writable and executable. */
static int check_flags(struct way *w)
{
        for (uint32_t i = 0; i < w->k.n_sections; i++)
                if ((w->k.sections[i].flags & (SHF_EXECINSTR | SHF_WRITE)) == (SHF_EXECINSTR | SHF_WRITE)) {
                        const char *name = blkup_ko_text(w->k.names, w->k.sections[i].name);

                        return blkup_refuse(w->r, -ENOEXEC, "elf-sections",
                                            "section %s (index %u) is writable and executable",
                                            name ? name : "", i);
                }
        return 0;
}

static int check_name(struct way *w)
{
        for (size_t i = 0; i < w->c->n_loaded; i++)
                if (strcmp(w->c->loaded[i].name, w->k.name) == 0)
                        return blkup_refuse(w->r, -EEXIST, "name", "%s is loaded already", w->k.name);
        return 0;
}

static int check_license(struct way *w)
{
        static const char *const liars[] = { "driverloader", "lve" }; /* names that the kernel knows for it */
        const char *license = blkup_ko_modinfo(&w->k, "license", NULL);

        w->k.is_proprietary = !license || !blkup_is_gpl_compatible(license);
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(liars); i++)
                w->k.is_proprietary |= strcmp(w->k.name, liars[i]) == 0;
        if (blkup_ko_modinfo(&w->k, "livepatch", NULL) && !w->c->kernel.has_livepatch)
                return blkup_refuse(w->r, -ENOEXEC, "elf-sections", "a livepatch, and the kernel takes none");
        return 0;
}

static int check_export_versions(struct way *w)
{
        if (!w->c->kernel.has_modversions || w->c->kernel.has_force_load)
                return 0;
        if ((blkup_ko_find(&w->k, "__ksymtab") && !blkup_ko_find(&w->k, "__kcrctab")) ||
            (blkup_ko_find(&w->k, "__ksymtab_gpl") && !blkup_ko_find(&w->k, "__kcrctab_gpl")))
                return blkup_refuse(w->r, -ENOEXEC, "modversions", "no versions for exported symbols");
        return 0;
}

/* ---- symbols ---- */

static bool imports_namespace(const struct way *w, const char *ns)
{
        const char *entry = NULL;

        while ((entry = blkup_ko_modinfo(&w->k, "import_ns", entry))) /* ends: with the section */
                if (strcmp(entry, ns) == 0)
                        return true;
        return false;
}

static int note_use(struct way *w, uint32_t owner)
{
        if (!w->uses || owner < BLKUP_OWNER_SET || owner == BLKUP_OWNER_SOME_MODULE)
                return 0;
        for (size_t i = 0; i < w->uses->n; i++)
                if (w->uses->v[i] == owner)
                        return 0;
        if (blkup_host_reserve((void **) &w->uses->v, &w->uses->cap, w->uses->n, sizeof(*w->uses->v), 65536) <
            0)
                return NOMEM;
        w->uses->v[w->uses->n++] = owner;
        return 0;
}

/* resolve_symbol(). 0, negative with the reason, NOMEM. */
static int resolve(struct way *w, const char *name, bool is_weak)
{
        const struct blkup_check_kernel *kernel = &w->c->kernel;
        uint32_t hash = blkup_export_hash(name);
        const struct blkup_export *x = blkup_exports_find(&w->c->exports, name, hash);
        bool hidden = x && x->is_gpl && w->k.is_proprietary;
        int v;

        if (!x || hidden) {
                if (is_weak || (!x && !kernel->knows_vmlinux) ||
                    ((w->k.machine == EM_386 || w->k.machine == EM_X86_64) &&
                     strcmp(name, "_GLOBAL_OFFSET_TABLE_") == 0))
                        return 0;
                return blkup_refuse(w->r, -ENOENT, "symbols", "unknown symbol %s%s", name,
                                    hidden ? ": it is for GPL-compatible modules only" : "");
        }
        w->uses_gpl_only |= x->is_gpl;
        if (x->owner > 0 && x->owner <= w->c->n_loaded && w->c->loaded[x->owner - 1].is_proprietary) {
                if (w->uses_gpl_only)
                        return blkup_refuse(w->r, -ENOENT, "symbols",
                                            "uses GPL-only symbols, and %s of the proprietary module %s",
                                            name, w->c->loaded[x->owner - 1].name);
                w->k.is_proprietary = true;
        }
        v = check_version(w, name, hash, x);
        if (v)
                return blkup_refuse(w->r, -EINVAL, "modversions",
                                    v == 1 ? "disagrees about version of symbol %s"
                                           : "no symbol version for %s",
                                    name);
        if (*x->ns && !kernel->allows_missing_ns && !imports_namespace(w, x->ns))
                return blkup_refuse(w->r, -EINVAL, "symbols",
                                    "uses symbol %s of namespace %s, but does not import it", name, x->ns);
        return note_use(w, x->owner);
}

/* simplify_symbols(): goes on after an error, and the last one is its answer. */
static int check_symbols(struct way *w)
{
        struct blkup_bytes table = blkup_ko_contents(&w->k, w->k.sym);
        uint64_t n = table.len / BLKUP_KO_SYM;
        int last = 0, e;

        for (uint64_t i = 1; i < n; i++) {
                const uint8_t *p = table.data + i * BLKUP_KO_SYM; /* inside: i < n */
                uint16_t section = blkup_load_le16(p + 6);
                const char *name;

                if ((section != SHN_UNDEF && section < SHN_LORESERVE && section < w->k.n_sections) ||
                    section == SHN_ABS || section == 0xff20 /* SHN_LIVEPATCH */)
                        continue;
                name = blkup_ko_text(w->names, blkup_load_le32(p));
                if (!name)
                        return blkup_refuse(w->r, -ENOEXEC, "symbols",
                                            "symbol %llu has its name outside the table",
                                            (unsigned long long) i);
                if (section == SHN_COMMON) {
                        if (strncmp(name, "__gnu_lto", 9) == 0)
                                continue;
                        last = blkup_refuse(w->r, -ENOEXEC, "elf-sections",
                                            "common symbol %s: compile with -fno-common", name);
                } else if (section == SHN_UNDEF) {
                        e = resolve(w, name, p[4] >> 4 == STB_WEAK);
                        if (e > 0)
                                return e;
                        last = e < 0 ? e : last;
                } else {
                        return blkup_refuse(w->r, -ENOEXEC, "symbols", "symbol %s lies in no section (%u)",
                                            name, section);
                }
        }
        return last;
}

/* verify_exported_symbols() */
static int check_export(void *arg, const struct blkup_export *x)
{
        struct way *w = arg;
        const struct blkup_export *other = blkup_exports_find(&w->c->exports, x->name, x->hash);

        if (!other || !other->is_in_kernel)
                return 0;
        return blkup_refuse(w->r, -ENOEXEC, "exports", "exports duplicate symbol %s (owned by %s)", x->name,
                            other->owner > 0 && other->owner <= w->c->n_loaded
                                    ? w->c->loaded[other->owner - 1].name
                                    : "kernel");
}

/* ---- the way ---- */

static int walk_sections(struct way *w)
{
        int e = check_layout(w);

        if (e == 0)
                e = check_vermagic(w);
        if (e == 0)
                e = check_license(w);
        if (e == 0)
                e = check_flags(w);
        if (e == 0)
                e = check_name(w);
        if (e == 0)
                e = check_export_versions(w);
        return e;
}

static int walk(struct way *w, const char *params)
{
        char unknown[200] = "";
        int e = 0;

        if (w->c->o.flags & IGNORE_MODVERSIONS)
                w->k.vers = 0;
        if (w->k.vers) {
                w->versions = blkup_ko_contents(&w->k, w->k.vers);
                e = index_versions(w);
        }
        w->names = blkup_ko_contents(&w->k, w->k.str);
        if (e == 0)
                e = walk_sections(w);
        if (e == 0)
                e = check_symbols(w);
        if (e == 0) {
                e = blkup_ko_check_relocations(&w->k, w->r);
                if (e == -ENOMEM && w->r->error == 0)
                        e = NOMEM;
        }
        if (e == 0)
                e = blkup_ko_each_export(&w->k, false, check_export, w);
        if (e == 0 && params) {
                e = blkup_ko_check_parameters(&w->k, params, w->r, unknown, sizeof(unknown));
                if (e == -ENOMEM && w->r->error == 0)
                        e = NOMEM;
                if (e == 0 && *unknown) {
                        w->r->stage = "parameters";
                        (void) snprintf(w->r->reason, sizeof(w->r->reason),
                                        "unknown parameters are ignored: %s", unknown);
                }
        }
        return e;
}

static int check_signature(const struct blkup_module_check *c, struct blkup_bytes *file,
                           struct blkup_refusal *r)
{
        size_t len = file->len;
        int e;

        if (c->o.flags & (IGNORE_MODVERSIONS | IGNORE_VERMAGIC))
                e = -ENODATA; /* a module that is forced counts as unsigned */
        else
                e = blkup_check_signature(*file, c->keys, &len);
        file->len = len;
        if (e == 0)
                return 0;
        if (e != -ENODATA && e != -ENOPKG && e != -ENOKEY)
                return blkup_refuse(r, e, "signature",
                                    e == -EKEYREJECTED ? "the signature is not of these bytes"
                                                       : "the signature makes no sense");
        if (c->o.sig_enforce)
                return blkup_refuse(r, -EKEYREJECTED, "signature", "%s, and signatures are required",
                                    e == -ENODATA  ? "not signed"
                                    : e == -ENOKEY ? "signed by an unknown key"
                                                   : "signed in an unknown way");
        return 0;
}

int blkup_check_bytes(const struct blkup_module_check *c, struct blkup_bytes file, const char *params,
                      struct blkup_refusal *r, char module[64], struct blkup_check_uses *uses)
{
        struct way w = { .c = c, .r = r, .uses = uses };
        int e = 0;

        *r = (struct blkup_refusal){ .stage = "" };
        if (c->o.flags & ~KNOWN_FLAGS)
                e = blkup_refuse(r, -EINVAL, "syscall", "unknown flags %#x", c->o.flags & ~KNOWN_FLAGS);
        else if (file.len == 0)
                e = blkup_refuse(r, -EINVAL, "elf-header", "the file is empty");
        else if ((c->o.flags & COMPRESSED_FILE) && !c->kernel.has_decompress)
                e = blkup_refuse(r, -EOPNOTSUPP, "syscall", "the kernel unpacks no modules");
        else
                e = check_signature(c, &file, r);
        if (e < 0)
                return 0;
        e = blkup_ko_open(file, c->kernel.machine, &w.k, r);
        if (e == -ENOMEM && r->error == 0)
                e = NOMEM;
        if (e == 0)
                e = walk(&w, params);
        if (*w.k.name)
                (void) snprintf(module, 64, "%s", w.k.name);
        free(w.slots);
        blkup_ko_close(&w.k);
        return e == NOMEM ? -ENOMEM : 0;
}

/* ---- the set ---- */

struct shared {
        struct blkup_module_check *c;
        char *const *files;
        struct blkup_module_verdict *verdicts;
        struct blkup_check_uses *uses; /* of each file; NULL: not asked */
        const uint8_t *only;           /* NULL: all files */
        size_t n;
        atomic_size_t next;
        atomic_int error;
        pthread_mutex_t big;           /* --lock=big: over the whole check of a module */
        pthread_mutex_t lock;          /* of the sums */
        struct blkup_module_check_stats sums;
};

static void *do_nothing(void *arg)
{
        return arg;
}

/* What a kernel did in 2009 before each load, for an error that hardly ever came: a thread for each CPU. */
static void prepare_error(void)
{
        cpu_set_t set;
        int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

        for (int i = 0; i < n; i++) {
                pthread_t t;

                if (pthread_create(&t, NULL, do_nothing, NULL) == 0)
                        (void) pthread_join(t, NULL);
        }
}

static int read_refusal(struct blkup_refusal *r, int e)
{
        return blkup_refuse(r, e, "elf-header", "%s",
                            e == -EOPNOTSUPP ? "packed, and no library here unpacks it"
                            : e == -EBADMSG  ? "the packed file is damaged"
                                             : blkup_error_text(-e));
}

static int check_one(struct shared *s, size_t i)
{
        struct blkup_module_check *c = s->c;
        struct blkup_module_verdict *v = &s->verdicts[i];
        struct blkup_check_file f = { 0 };
        struct blkup_refusal r = { .stage = "" };
        uint64_t start, got, end;
        int e = blkup_check_read(s->files[i], !(c->o.flags & COMPRESSED_FILE), &f);

        *v = (struct blkup_module_verdict){ .file = s->files[i], .stage = "" };
        if (e < 0) {
                if (e == -ENOMEM)
                        return e;
                (void) read_refusal(&r, e);
                e = 0;
        } else {
                start = got = blkup_now_ns();
                if (c->o.lock == BLKUP_MODULE_LOCK_BIG) {
                        (void) pthread_mutex_lock(&s->big);
                        got = blkup_now_ns();
                }
                if (c->o.prep == BLKUP_MODULE_PREP_ALWAYS)
                        prepare_error();
                e = blkup_check_bytes(c, f.bytes, c->o.params, &r, v->module, s->uses ? &s->uses[i] : NULL);
                if (c->o.prep == BLKUP_MODULE_PREP_ON_ERROR && r.error < 0 &&
                    c->o.lock == BLKUP_MODULE_LOCK_BIG)
                        prepare_error();
                end = blkup_now_ns();
                if (c->o.lock == BLKUP_MODULE_LOCK_BIG)
                        (void) pthread_mutex_unlock(&s->big);
                (void) pthread_mutex_lock(&s->lock);
                s->sums.lock_wait_ns += got - start;
                s->sums.link_ns += end - got;
                if (got - start > s->sums.lock_wait_most_ns)
                        s->sums.lock_wait_most_ns = got - start;
                if (end - got > s->sums.link_most_ns)
                        s->sums.link_most_ns = end - got;
                (void) pthread_mutex_unlock(&s->lock);
                blkup_check_close(&f);
        }
        v->error = r.error;
        v->stage = r.stage;
        (void) snprintf(v->reason, sizeof(v->reason), "%s", r.reason);
        return e;
}

static void *work(void *arg)
{
        struct shared *s = arg;
        size_t i;

        /* Ends: next only grows. */
        while ((i = atomic_fetch_add(&s->next, 1)) < s->n && atomic_load(&s->error) == 0) {
                int e = !s->only || s->only[i] ? check_one(s, i) : 0;

                if (e < 0)
                        atomic_store(&s->error, e);
        }
        return NULL;
}

static int run_all(struct shared *s)
{
        pthread_t threads[64];
        cpu_set_t set;
        sigset_t all, before;
        unsigned n = s->c->o.workers, made = 0;

        if (n == 0)
                n = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned) CPU_COUNT(&set) : 1;
        if (n > BLKUP_ARRAY_SIZE(threads))
                n = BLKUP_ARRAY_SIZE(threads);
        atomic_store(&s->next, 0);
        /* The program's signals are for its own threads. */
        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &before);
        for (; made + 1 < n && made + 1 < s->n; made++)
                if (pthread_create(&threads[made], NULL, work, s) != 0)
                        break; /* then with fewer */
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void) work(s);
        while (made > 0)
                (void) pthread_join(threads[--made], NULL);
        return atomic_load(&s->error);
}

/* What the files of the set export themselves. */
static int gather_exports(struct blkup_module_check *c, char *const *files, size_t n)
{
        int e = 0;

        for (size_t i = 0; e == 0 && i < n; i++) {
                struct blkup_check_file f = { 0 };
                struct blkup_refusal r = { 0 };
                struct blkup_ko k;

                if (blkup_check_read(files[i], true, &f) < 0)
                        continue;
                if (blkup_ko_open(f.bytes, 0, &k, &r) == 0)
                        e = blkup_exports_add_module(&c->exports, &k, BLKUP_OWNER_SET + (uint32_t) i, false);
                blkup_ko_close(&k);
                blkup_check_close(&f);
        }
        return e;
}

/* Can `at` be reached from itself? Ends: each file is entered once a question. */
static bool is_in_cycle(const struct shared *s, size_t from, size_t at, uint8_t *seen)
{
        for (size_t i = 0; i < s->uses[at].n; i++) {
                size_t to = s->uses[at].v[i] - BLKUP_OWNER_SET;

                if (to == from && at != from)
                        return true;
                if (to >= s->n || to == at || seen[to])
                        continue;
                seen[to] = 1;
                if (is_in_cycle(s, from, to, seen))
                        return true;
        }
        return false;
}

static int refuse_cycles(struct shared *s)
{
        uint8_t *seen = calloc(s->n + 1, 1);

        if (!seen)
                return -ENOMEM;
        for (size_t i = 0; i < s->n && s->n <= 4096; i++) {
                struct blkup_module_verdict *v = &s->verdicts[i];

                memset(seen, 0, s->n);
                if (v->error < 0 || !is_in_cycle(s, i, i, seen))
                        continue;
                v->error = -ENOENT;
                v->stage = "symbols";
                (void) snprintf(v->reason, sizeof(v->reason),
                                "it needs a module that needs it: neither can be first");
        }
        free(seen);
        return 0;
}

int blkup_module_check_run(struct blkup_module_check *c, char *const *files, size_t n, bool is_all,
                           struct blkup_module_verdict *ret, struct blkup_module_check_stats *stats,
                           struct blkup_error *err)
{
        struct shared s = { .c = c, .files = files, .verdicts = ret, .n = n };
        BLKUP_CLEANUP_FREE uint8_t *only = NULL;
        uint64_t start = blkup_now_ns();
        bool has_missing = false;
        int e = 0;

        (void) pthread_mutex_init(&s.big, NULL);
        (void) pthread_mutex_init(&s.lock, NULL);
        s.uses = calloc(n + 1, sizeof(*s.uses));
        only = calloc(n + 1, 1);
        if (!s.uses || !only)
                e = -ENOMEM;
        /* Module.symvers tells what the kernel's own modules export: reading that of thousands of files again
         * is for when something is missing. */
        if (e == 0 && (!is_all || !c->kernel.knows_vmlinux))
                e = gather_exports(c, files, n);
        if (e == 0)
                e = run_all(&s);
        for (size_t i = 0; e == 0 && is_all && c->kernel.knows_vmlinux && i < n; i++) {
                only[i] = ret[i].error == -ENOENT;
                has_missing |= only[i];
        }
        if (e == 0 && has_missing) {
                e = gather_exports(c, files, n);
                s.only = only;
                if (e == 0)
                        e = run_all(&s);
        }
        if (e == 0)
                e = refuse_cycles(&s);
        if (e == 0 && stats) {
                s.sums.n_files = n;
                for (size_t i = 0; i < n; i++)
                        s.sums.n_refused += ret[i].error < 0;
                s.sums.span_ns = blkup_now_ns() - start;
                *stats = s.sums;
        }
        for (size_t i = 0; s.uses && i < n; i++)
                free(s.uses[i].v);
        free(s.uses);
        (void) pthread_mutex_destroy(&s.big);
        (void) pthread_mutex_destroy(&s.lock);
        return e < 0 ? blkup_fail_errno(err, e, "check") : 0;
}

static int add_loaded(struct blkup_module_check *c, const char *path, struct blkup_error *err)
{
        struct blkup_check_loaded *l = &c->loaded[c->n_loaded];
        struct blkup_check_file f = { 0 };
        struct blkup_refusal r = { 0 };
        struct blkup_ko k;
        const char *license;
        int e = blkup_check_read(path, true, &f);

        if (e < 0)
                return blkup_fail_errno(err, e, "%s", path);
        e = blkup_ko_open(f.bytes, 0, &k, &r);
        if (e == 0) {
                (void) snprintf(l->name, sizeof(l->name), "%s", k.name);
                license = blkup_ko_modinfo(&k, "license", NULL);
                l->is_proprietary = !license || !blkup_is_gpl_compatible(license);
                c->n_loaded++;
                e = blkup_exports_add_module(&c->exports, &k, (uint32_t) c->n_loaded, true);
                if (e < 0)
                        (void) blkup_fail_errno(err, e, "%s", path);
        } else {
                e = blkup_fail(err, -EINVAL, "%s: %s", path, r.reason);
        }
        blkup_ko_close(&k);
        blkup_check_close(&f);
        return e;
}

int blkup_module_check_new(const struct blkup_module_check_options *o, struct blkup_module_check **ret,
                           struct blkup_error *err)
{
        struct blkup_module_check *c = calloc(1, sizeof(*c));
        int e;

        if (!c)
                return blkup_fail_errno(err, -ENOMEM, "check");
        c->o = *o;
        c->loaded = calloc(o->n_loaded + 1, sizeof(*c->loaded));
        e = c->loaded ? blkup_check_learn_kernel(c, err) : blkup_fail_errno(err, -ENOMEM, "check");
        for (size_t i = 0; e == 0 && i < o->n_loaded; i++)
                e = add_loaded(c, o->loaded[i], err);
        if (e == 0 && o->keys)
                e = blkup_keys_load(o->keys, &c->keys, err);
        if (e < 0) {
                (void) blkup_module_check_free(c);
                return e;
        }
        *ret = c;
        return 0;
}

struct blkup_module_check *blkup_module_check_free(struct blkup_module_check *c)
{
        if (c) {
                blkup_exports_free(&c->exports);
                (void) blkup_keys_free(c->keys);
                free(c->loaded);
                free(c);
        }
        return NULL;
}

/* ---- --all ---- */

struct listing {
        const struct blkup_modules *m;
        char **v;
        size_t n, cap;
};

static int list_one(void *arg, const char *key, const char *value)
{
        struct listing *l = arg;
        const char *colon = strchr(value, ':');
        int r = blkup_host_reserve((void **) &l->v, &l->cap, l->n, sizeof(*l->v), 1u << 20);

        (void) key;
        if (r < 0 || !colon)
                return r;
        if (asprintf(&l->v[l->n], "%s%s%s%.*s", l->m->root, *value == '/' ? "" : l->m->folder,
                     *value == '/' ? "" : "/", (int) (colon - value), value) < 0)
                return -ENOMEM;
        l->n++;
        return 0;
}

int blkup_module_check_all(const struct blkup_module_check *c, char ***ret, size_t *ret_n)
{
        struct listing l = { .m = c->o.modules };
        int r = l.m ? blkup_index_each(&l.m->dep, list_one, &l) : -EINVAL;

        if (r < 0) {
                while (l.n > 0)
                        free(l.v[--l.n]);
                free(l.v);
                return r;
        }
        *ret = l.v;
        *ret_n = l.n;
        return 0;
}
