/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modules made here: every cut and every bit flipped ends in a verdict; parameters; signatures. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "fake-root.h"
#include "modules/check.h"
#include "modules/unpack.h"

/* Room for all sections of the module below. */
struct image {
        uint8_t p[4096];
        size_t n;
};

static void set16(struct image *i, size_t at, uint16_t v)
{
        i->p[at] = (uint8_t) v;
        i->p[at + 1] = (uint8_t) (v >> 8);
}

static void set32(struct image *i, size_t at, uint32_t v)
{
        set16(i, at, (uint16_t) v);
        set16(i, at + 2, (uint16_t) (v >> 16));
}

static void set64(struct image *i, size_t at, uint64_t v)
{
        set32(i, at, (uint32_t) v);
        set32(i, at + 4, (uint32_t) (v >> 32));
}

static const char names[] =
        "\0.gnu.linkonce.this_module\0.modinfo\0__versions\0.text\0.rela.text\0.symtab\0.strtab";
static const char symbols[] = "\0init\0_printk";
static const char info[] = "license=GPL\0vermagic=1.0 SMP \0parmtype=n:int\0parmtype=list:array of int\0"
                           "parmtype=on:bool\0import_ns=SPACE";

static uint32_t name_at(const char *name)
{
        return (uint32_t) ((const char *) memmem(names, sizeof(names), name, strlen(name) + 1) - names);
}

static void section(struct image *i, unsigned index, const char *name, uint32_t type, uint64_t flags,
                    const void *p, size_t n, uint32_t link, uint32_t inf)
{
        size_t at = 64 + 64 * (size_t) index;

        i->n = (i->n + 7) / 8 * 8;
        set32(i, at, name_at(name));
        set32(i, at + 4, type);
        set64(i, at + 8, flags);
        set64(i, at + 24, i->n);
        set64(i, at + 32, n);
        set32(i, at + 40, link);
        set32(i, at + 44, inf);
        memcpy(i->p + i->n, p, n);
        i->n += n;
}

/* Sections: 1 this_module, 2 modinfo, 3 versions, 4 text, 5 its relocations, 6 symbols, 7 their names, 8
 * names. */
static struct image make(void)
{
        struct image i = { .n = 64 + 64 * 9 };
        uint8_t mod[128] = { 0 }, versions[128] = { 0 }, text[16] = { 0 }, rela[48] = { 0 }, syms[72] = { 0 };

        memcpy(i.p, ELFMAG, SELFMAG);
        i.p[EI_CLASS] = ELFCLASS64;
        i.p[EI_DATA] = ELFDATA2LSB;
        set16(&i, 16, ET_REL);
        set16(&i, 18, EM_X86_64);
        set64(&i, 40, 64);
        set16(&i, 58, 64);
        set16(&i, 60, 9);
        set16(&i, 62, 8);
        memcpy(mod + 24, "made", 4);
        versions[0] = 0x11;
        memcpy(versions + 8, "module_layout", 13);
        versions[64] = 0x22;
        memcpy(versions + 72, "_printk", 7);
        /* init: defined in text; _printk: imported; one call of it */
        syms[24] = 1;
        syms[24 + 6] = 4;
        syms[48] = 6;
        syms[48 + 4] = 0x10;
        rela[0] = 4;
        rela[8] = R_X86_64_PLT32;
        rela[12] = 2;
        rela[24] = 8;
        rela[32] = R_X86_64_64;
        rela[36] = 1;
        section(&i, 1, ".gnu.linkonce.this_module", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, mod, sizeof(mod), 0,
                0);
        section(&i, 2, ".modinfo", SHT_PROGBITS, SHF_ALLOC, info, sizeof(info), 0, 0);
        section(&i, 3, "__versions", SHT_PROGBITS, SHF_ALLOC, versions, sizeof(versions), 0, 0);
        section(&i, 4, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, text, sizeof(text), 0, 0);
        section(&i, 5, ".rela.text", SHT_RELA, SHF_INFO_LINK, rela, sizeof(rela), 6, 4);
        section(&i, 6, ".symtab", SHT_SYMTAB, 0, syms, sizeof(syms), 7, 2);
        section(&i, 7, ".strtab", SHT_STRTAB, 0, symbols, sizeof(symbols), 0, 0);
        section(&i, 8, ".strtab", SHT_STRTAB, 0, names, sizeof(names), 0, 0);
        return i;
}

static const char symvers[] = "0x00000011\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
                              "0x00000022\t_printk\tvmlinux\tEXPORT_SYMBOL\tSPACE\n";

static struct blkup_module_check *make_check(struct blkup_module_check_options o)
{
        struct blkup_module_check *c = NULL;

        o.vermagic = "1.0 SMP ";
        assert_int_equal(blkup_module_check_new(&o, &c, NULL), 0);
        assert_int_equal(blkup_exports_add_symvers(&c->exports, symvers, sizeof(symvers) - 1), 0);
        c->kernel.knows_vmlinux = true;
        c->kernel.has_modversions = true;
        c->kernel.machine = EM_X86_64;
        return c;
}

static struct blkup_refusal ask(const struct blkup_module_check *c, const uint8_t *p, size_t n,
                                const char *params)
{
        struct blkup_refusal r = { 0 };
        char module[64];

        assert_int_equal(blkup_check_bytes(c, (struct blkup_bytes){ .data = p, .len = n }, params, &r, module,
                                           NULL),
                         0);
        return r;
}

static void a_good_one_loads(void **state)
{
        struct blkup_module_check *c = make_check((struct blkup_module_check_options){ 0 });
        struct image i = make();
        struct blkup_refusal r = ask(c, i.p, i.n, NULL);

        (void) state;
        assert_string_equal(r.reason, "");
        assert_int_equal(r.error, 0);
        /* The kernel does not look at the class: neither is the file refused for it here. */
        i.p[EI_CLASS] = ELFCLASS32;
        assert_int_equal(ask(c, i.p, i.n, NULL).error, 0);
        (void) blkup_module_check_free(c);
}

static void every_cut_and_every_bit_has_a_verdict(void **state)
{
        struct blkup_module_check *c = make_check((struct blkup_module_check_options){ 0 });
        struct image i = make();
        size_t n_refused = 0;

        (void) state;
        for (size_t n = 0; n < i.n; n++) {
                uint8_t *p = malloc(n ? n : 1);

                assert_non_null(p);
                memcpy(p, i.p, n);
                assert_true(ask(c, p, n, NULL).error < 0);
                free(p);
        }
        for (size_t bit = 0; bit < i.n * 8; bit++) {
                struct blkup_refusal r;

                i.p[bit / 8] ^= (uint8_t) (1u << (bit % 8));
                r = ask(c, i.p, i.n, "n=1 list=1,2 on");
                assert_true(r.error <= 0);
                n_refused += r.error < 0;
                i.p[bit / 8] ^= (uint8_t) (1u << (bit % 8));
        }
        assert_true(n_refused > 1000);
        (void) blkup_module_check_free(c);
}

static void relocations_are_applied_in_order(void **state)
{
        struct blkup_module_check *c = make_check((struct blkup_module_check_options){ 0 });
        struct image good = make(), i = good;
        size_t rela = blkup_load_le64(good.p + 64 + 64 * 5 + 24),
               text = blkup_load_le64(good.p + 64 + 64 * 4 + 24);

        (void) state;
        i.p[text + 4] = 1; /* not zero where one is to be written */
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -ENOEXEC);
        i = good;
        i.p[rela + 24] = 4; /* both at one place: the second meets what the first wrote */
        i.p[rela + 32] = R_X86_64_PC32;
        assert_string_equal(ask(c, i.p, i.n, NULL).stage, "relocation");
        i = good;
        i.p[rela + 24] = 0; /* out of order, apart */
        i.p[rela + 32] = R_X86_64_PC32;
        assert_int_equal(ask(c, i.p, i.n, NULL).error, 0);
        i.p[rela + 24] = 13; /* one byte outside */
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -ENOEXEC);
        i = good;
        i.p[rela + 36] = 3; /* no such symbol */
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -ENOEXEC);
        i = good;
        i.p[rela + 32] = R_X86_64_32; /* an address of a module does not fit */
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -ENOEXEC);
        i.p[rela + 32] = R_X86_64_32S;
        assert_int_equal(ask(c, i.p, i.n, NULL).error, 0);
        (void) blkup_module_check_free(c);
}

static void versions_and_namespaces(void **state)
{
        struct blkup_module_check *c = make_check((struct blkup_module_check_options){ 0 });
        struct image good = make(), i = good;
        size_t versions = blkup_load_le64(good.p + 64 + 64 * 3 + 24),
               mi = blkup_load_le64(good.p + 64 + 64 * 2 + 24);
        uint8_t *at;

        (void) state;
        i.p[versions + 64] = 0x23;
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -EINVAL);
        i = good;
        i.p[versions] = 0x12;
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -ENOEXEC);
        i = good;
        i.p[versions + 72] = 'x'; /* no entry for _printk */
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -EINVAL);
        i = good;
        at = memmem(i.p + mi, sizeof(info), "=SPACE", 6);
        at[1] = 'X';
        assert_string_equal(ask(c, i.p, i.n, NULL).stage, "symbols");
        i = good;
        at = memmem(i.p + mi, sizeof(info), "SMP", 3);
        at[0] = 'X';
        assert_string_equal(ask(c, i.p, i.n, NULL).stage, "vermagic");
        i = good;
        at = memmem(i.p + mi, sizeof(info), "=1.0", 4);
        at[1] = '2'; /* the release is not compared where symbols have versions */
        assert_int_equal(ask(c, i.p, i.n, NULL).error, 0);
        (void) blkup_module_check_free(c);
}

static void parameters(void **state)
{
        static const struct { const char *text; int error;
        } cases[] = {
                { "n=7", 0 },
                { "n=abc", -EINVAL },
                { "n", -EINVAL },
                { "n=99999999999", -ERANGE },
                { "n=-0x10", 0 },
                { "n=", -EINVAL },
                { "n=08", -EINVAL },
                { "list=1,2,3", 0 },
                { "list=1,x", -EINVAL },
                { "on", 0 },
                { "on=off", 0 },
                { "on=maybe", -EINVAL },
                { "what=1", 0 },
                { "\"n=7\"", 0 },
                { "n=\"7\"", 0 },
                { "on=y -- n=abc", 0 },
                { "  ", 0 },
                { "n=2147483648", -ERANGE },
                { "n=-2147483648", 0 },
        };
        struct blkup_module_check *c = make_check((struct blkup_module_check_options){ 0 });
        struct image i = make();

        (void) state;
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(cases); k++) {
                struct blkup_refusal r = ask(c, i.p, i.n, cases[k].text);

                if (r.error != cases[k].error)
                        print_message("%s: %d %s\n", cases[k].text, r.error, r.reason);
                assert_int_equal(r.error, cases[k].error);
        }
        assert_non_null(strstr(ask(c, i.p, i.n, "what=1 n=1").reason, "what"));
        (void) blkup_module_check_free(c);
}

static void signatures(void **state)
{
        struct blkup_module_check *c = make_check((struct blkup_module_check_options){ .sig_enforce = true });
        struct blkup_module_check *plain = make_check((struct blkup_module_check_options){ 0 });
        static const char mark[] = "~Module signature appended~\n";
        struct image i = make();

        (void) state;
        assert_int_equal(ask(c, i.p, i.n, NULL).error, -EKEYREJECTED);
        memcpy(i.p + i.n, mark, sizeof(mark) - 1);
        i.n += sizeof(mark) - 1;
        assert_int_equal(ask(plain, i.p, i.n, NULL).error, -EBADMSG);
        (void) blkup_module_check_free(c);
        (void) blkup_module_check_free(plain);
}

static void damaged_packings_end_well(void **state)
{
        static const uint8_t xz[] = { 0xfd, '7', 'z', 'X', 'Z', 0, 0, 4 }, gz[] = { 0x1f, 0x8b, 8, 0 },
                             zst[] = { 0x28, 0xb5, 0x2f, 0xfd, 4 };
        uint8_t *p = NULL;
        size_t n = 0;
        int r;

        (void) state;
        assert_int_equal(blkup_packing_of(xz, sizeof(xz)), BLKUP_XZ);
        assert_int_equal(blkup_packing_of(gz, sizeof(gz)), BLKUP_GZIP);
        assert_int_equal(blkup_packing_of(zst, sizeof(zst)), BLKUP_ZSTD);
        r = blkup_unpack(BLKUP_XZ, xz, sizeof(xz), &p, &n);
        assert_true(r == -EBADMSG || r == -EOPNOTSUPP);
        r = blkup_unpack(BLKUP_GZIP, gz, sizeof(gz), &p, &n);
        assert_true(r == -EBADMSG || r == -EOPNOTSUPP);
        r = blkup_unpack(BLKUP_ZSTD, zst, sizeof(zst), &p, &n);
        assert_true(r == -EBADMSG || r == -EOPNOTSUPP);
        assert_null(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_good_one_loads),
                cmocka_unit_test(every_cut_and_every_bit_has_a_verdict),
                cmocka_unit_test(relocations_are_applied_in_order),
                cmocka_unit_test(versions_and_namespaces),
                cmocka_unit_test(parameters),
                cmocka_unit_test(signatures),
                cmocka_unit_test(damaged_packings_end_well),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
