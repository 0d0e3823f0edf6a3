/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What can be learnt of the kernel that a module is for: its headers' folder, its modules, its System.map. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "host/hostfile.h"
#include "modules/check.h"
#include "modules/unpack.h"

#define MAX_TEXT (64u << 20)

static bool has_suffix(const char *path, const char *suffix)
{
        size_t n = strlen(path), k = strlen(suffix);

        return n > k && strcmp(path + n - k, suffix) == 0;
}

int blkup_check_read(const char *path, bool unpack, struct blkup_check_file *ret)
{
        BLKUP_CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct blkup_check_file f = { 0 };
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        if (st.st_size > INT32_MAX) /* kernel_read_file()'s limit */
                return -EFBIG;
        if (st.st_size > 0) {
                f.map_len = (size_t) st.st_size;
                f.map = mmap(NULL, f.map_len, PROT_READ, MAP_PRIVATE, fd, 0);
                if (f.map == MAP_FAILED)
                        return -errno;
        }
        f.bytes = (struct blkup_bytes){ .data = f.map ? f.map : (const void *) "", .len = f.map_len };
        if (unpack && (has_suffix(path, ".xz") || has_suffix(path, ".zst") || has_suffix(path, ".gz"))) {
                uint8_t *p = NULL;
                size_t n = 0;
                int r = blkup_unpack(blkup_packing_of(f.bytes.data, f.bytes.len), f.bytes.data, f.bytes.len,
                                     &p, &n);

                if (r < 0) {
                        blkup_check_close(&f);
                        return r == -EINVAL ? -EBADMSG : r;
                }
                f.unpacked = p;
                f.bytes = (struct blkup_bytes){ .data = p, .len = n };
        }
        *ret = f;
        return 0;
}

void blkup_check_close(struct blkup_check_file *f)
{
        if (f->map)
                (void) munmap(f->map, f->map_len);
        free(f->unpacked);
        *f = (struct blkup_check_file){ 0 };
}

static bool has_line(const char *config, const char *line)
{
        size_t n = strlen(line);

        for (const char *at = strstr(config, line); at; at = strstr(at + 1, line)) /* ends: at grows */
                if ((at == config || at[-1] == '\n') && (at[n] == '\n' || at[n] == '\0'))
                        return true;
        return false;
}

static void read_config(struct blkup_check_kernel *k, const char *config)
{
        static const struct { const char *line; uint16_t machine;
        } machines[] = {
                { "CONFIG_X86_64=y", EM_X86_64 }, { "CONFIG_ARM64=y", EM_AARCH64 },
                { "CONFIG_RISCV=y", EM_RISCV },   { "CONFIG_S390=y", EM_S390 },
                { "CONFIG_PPC64=y", EM_PPC64 },
        };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(machines); i++)
                if (has_line(config, machines[i].line))
                        k->machine = machines[i].machine;
        k->has_modversions = has_line(config, "CONFIG_MODVERSIONS=y");
        k->has_force_load = has_line(config, "CONFIG_MODULE_FORCE_LOAD=y");
        k->allows_missing_ns = has_line(config, "CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS=y");
        k->has_livepatch = has_line(config, "CONFIG_LIVEPATCH=y");
        k->has_decompress = has_line(config, "CONFIG_MODULE_DECOMPRESS=y");
}

/* include/linux/vermagic.h: the release, then a word for each of these. */
static void make_vermagic(struct blkup_check_kernel *k, const char *config, const char *utsrelease)
{
        const char *quote = strchr(utsrelease, '"'), *end = quote ? strchr(quote + 1, '"') : NULL;

        /* On x86-64 the architecture adds nothing; elsewhere it does, so a module has to tell. */
        if (!end || k->machine != EM_X86_64 || has_line(config, "CONFIG_RANDSTRUCT=y"))
                return;
        (void) snprintf(k->vermagic, sizeof(k->vermagic), "%.*s %s%s%s%s", (int) (end - quote - 1), quote + 1,
                        has_line(config, "CONFIG_SMP=y") ? "SMP " : "",
                        has_line(config, "CONFIG_PREEMPT_RT=y")      ? "preempt_rt "
                        : has_line(config, "CONFIG_PREEMPT_BUILD=y") ? "preempt "
                                                                     : "",
                        has_line(config, "CONFIG_MODULE_UNLOAD=y") ? "mod_unload " : "",
                        k->has_modversions ? "modversions " : "");
}

/* Beside Module.symvers of a headers package or a build folder. */
static void learn_folder(struct blkup_check_kernel *k, const char *symvers)
{
        BLKUP_CLEANUP_FREE char *config = NULL, *uts = NULL, *path = NULL;
        const char *slash = strrchr(symvers, '/');
        size_t n = 0;
        int len = slash ? (int) (slash - symvers) : 1;

        if (!slash)
                symvers = ".";
        if (asprintf(&path, "%.*s/include/config/auto.conf", len, symvers) < 0) {
                path = NULL;
                return;
        }
        if (blkup_host_read_named(path, MAX_TEXT, &config, &n) < 0)
                return;
        read_config(k, config);
        free(path);
        if (asprintf(&path, "%.*s/include/generated/utsrelease.h", len, symvers) < 0) {
                path = NULL;
                return;
        }
        if (blkup_host_read_named(path, MAX_TEXT, &uts, &n) == 0)
                make_vermagic(k, config, uts);
}

/* From the first module that can be read: the kernel's own modules all say the same. */
static void learn_module(struct blkup_check_kernel *k, const char *path)
{
        struct blkup_check_file f = { 0 };
        struct blkup_refusal r = { 0 };
        struct blkup_ko ko;
        const char *vermagic;

        if (blkup_check_read(path, true, &f) < 0)
                return;
        if (blkup_ko_open(f.bytes, 0, &ko, &r) == 0) {
                vermagic = blkup_ko_modinfo(&ko, "vermagic", NULL);
                if (vermagic && !*k->vermagic)
                        (void) snprintf(k->vermagic, sizeof(k->vermagic), "%s", vermagic);
                if (!k->machine)
                        k->machine = ko.machine;
        }
        blkup_ko_close(&ko);
        blkup_check_close(&f);
}

static int find_module(void *arg, const char *key, const char *value)
{
        struct blkup_module_check *c = arg;
        const char *colon = strchr(value, ':');
        char *path = NULL;

        (void) key;
        if (!colon ||
            asprintf(&path, "%s%s%s%.*s", c->o.modules->root, *value == '/' ? "" : c->o.modules->folder,
                     *value == '/' ? "" : "/", (int) (colon - value), value) < 0)
                return 0;
        learn_module(&c->kernel, path);
        free(path);
        return *c->kernel.vermagic ? -ECANCELED : 0;
}

static int add_symvers(struct blkup_module_check *c, const char *path)
{
        BLKUP_CLEANUP_FREE char *text = NULL;
        size_t n = 0;
        int r = blkup_host_read_named(path, MAX_TEXT, &text, &n);

        if (r < 0)
                return r;
        learn_folder(&c->kernel, path);
        r = blkup_exports_add_symvers(&c->exports, text, n);
        c->kernel.knows_vmlinux |= r == 0 && blkup_exports_find(&c->exports, "module_layout",
                                                                 blkup_export_hash("module_layout")) != NULL;
        return r;
}

/* Debian's folders of the headers. */
static int find_symvers(struct blkup_module_check *c)
{
        const struct blkup_modules *m = c->o.modules;
        char *path = NULL;
        int r = 0;

        for (unsigned i = 0; m && i < 2 && !c->kernel.knows_vmlinux && r == 0; i++) {
                int n = i == 0 ? asprintf(&path, "%s%s/build/Module.symvers", m->root, m->folder)
                               : asprintf(&path, "%s/usr/src/linux-headers-%s/Module.symvers", m->root,
                                          m->release);

                if (n < 0)
                        return -ENOMEM;
                r = add_symvers(c, path);
                if (r != -ENOMEM)
                        r = 0;
                free(path);
        }
        return r;
}

int blkup_check_learn_kernel(struct blkup_module_check *c, struct blkup_error *err)
{
        struct blkup_check_kernel *k = &c->kernel;
        int r = 0;

        *k = (struct blkup_check_kernel){ .has_modversions = true,
                                          .has_force_load = true,
                                          .has_livepatch = true };
        if (c->o.symvers) {
                size_t before = c->exports.n;

                r = add_symvers(c, c->o.symvers);
                if (r < 0)
                        return blkup_fail_errno(err, r, "%s", c->o.symvers);
                if (c->exports.n == before)
                        return blkup_fail(err, -ENODATA, "%s: names no symbol: it is no Module.symvers",
                                          c->o.symvers);
        } else {
                r = find_symvers(c);
        }
        if (r == 0 && c->o.system_map) {
                BLKUP_CLEANUP_FREE char *text = NULL;
                size_t n = 0, n_symbols = 0;

                r = blkup_host_read_named(c->o.system_map, MAX_TEXT, &text, &n);
                if (r == 0)
                        r = blkup_exports_add_system_map(&c->exports, text, n, &n_symbols);
                if (r < 0)
                        return blkup_fail_errno(err, r, "%s", c->o.system_map);
                if (n_symbols == 0) /* Debian's is a stub */
                        return blkup_fail(
                                err, -ENODATA,
                                "%s: names no exported symbol; use --symvers with the Module.symvers "
                                "of the kernel's headers",
                                c->o.system_map);
                k->knows_vmlinux = true;
        }
        if (r < 0)
                return blkup_fail_errno(err, r, "kernel");
        if (c->o.vermagic)
                (void) snprintf(k->vermagic, sizeof(k->vermagic), "%s", c->o.vermagic);
        if (c->o.modules && (!*k->vermagic || !k->machine)) {
                r = blkup_index_each(&c->o.modules->dep, find_module, c);
                if (r < 0 && r != -ECANCELED) /* that is its way to say: found */
                        return blkup_fail_errno(err, r, "%s/modules.dep.bin", c->o.modules->folder);
        }
        for (size_t i = 0; i < c->o.n_loaded && (!*k->vermagic || !k->machine); i++)
                learn_module(k, c->o.loaded[i]);
        if (!k->machine && sizeof(void *) == 8) {
#if defined(__x86_64__)
                k->machine = EM_X86_64;
#elif defined(__aarch64__)
                k->machine = EM_AARCH64;
#endif
        }
        if (*k->vermagic)
                k->has_modversions = strstr(k->vermagic, "modversions") != NULL;
        return 0;
}
