/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine with a registry of this test's own: each format does what the bytes behind its magic tell it to,
 * so who wins, what is read and when can be said exactly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "block/fault.h"
#include "block/memory.h"
#include "block/recorder.h"
#include "probe/format.h"

/* -- the registry: a format's magic is its name, its place the number of its row times 2048 -- */
enum {
        FIRST,
        RAID,
        TOLERANT,
        VFAT,
        SECOND,
        OTHER,
        EACH_MAGIC,
        ONE_MAGIC,
        WHOLE,
        LARGE,
        NO_MAGIC,
        TAIL,
        LATE,
        N_ROWS
};
#define PLACE(row) ((row) * 2048u)
#define ACTION 8 /* behind the start of the magic: one letter; then 8 bytes, a number */

static unsigned looked[N_ROWS];

static enum blkup_outcome act(struct blkup_view *v, uint64_t at, unsigned row, struct blkup_found *ret)
{
        struct blkup_bytes b, more;
        uint64_t number;

        looked[row]++;
        BLKUP_FETCH(v, at, 32, &b);
        number = blkup_le64_at(b, ACTION + 1);
        switch (b.data[ACTION]) {
        case 'D':
                return blkup_damaged(v, "damaged as told");
        case 'R':
                return blkup_refuse(v, "refused as told");
        case 'U':
                return blkup_gave_up(v, "gave up as told");
        case 'N': /* needs another place, and one beside it */
                blkup_view_want(v, number + 4096, 16);
                BLKUP_FETCH(v, number, 16, &more);
                BLKUP_FETCH(v, number + 4096, 16, &more);
                break;
        case 'C': /* a chain: each place names the next */
                for (unsigned i = 0; number != 0; i++) {
                        BLKUP_FETCH(v, number, 16, &more);
                        number = blkup_le64_at(more, 0);
                }
                break;
        case 'L': /* an endless chain, each link in another sector */
                for (uint64_t i = 0;; i++)
                        BLKUP_FETCH(v, number + i * 512, 16, &more);
        case 'B': /* a long range */
                BLKUP_FETCH(v, 0, number, &more);
                break;
        case 'Z':
                while (blkup_view_work(v, 1))
                        ;
                return blkup_gave_up(v, "too much work");
        case 'W':
                ret->wiped_from = 0;
                ret->wiped_to = number;
                break;
        default:
                break;
        }
        if (blkup_sub_bytes(b, 24, 8, &more))
                blkup_found_rtrimmed(ret, "LABEL", more);
        return BLKUP_FOUND;
}

#define CHECK(name, row)                                                                          \
        static enum blkup_outcome check_##name(struct blkup_view *v, const struct blkup_hit *hit, \
                                               struct blkup_found *ret)                           \
        {                                                                                         \
                return act(v, hit->base, row, ret);                                               \
        }
CHECK(first, FIRST)
CHECK(raid, RAID)
CHECK(tolerant, TOLERANT)
CHECK(vfat, VFAT)
CHECK(second, SECOND)
CHECK(other, OTHER)
CHECK(each_magic, EACH_MAGIC)
CHECK(one_magic, ONE_MAGIC)
CHECK(whole, WHOLE)
CHECK(large, LARGE)
CHECK(tail, TAIL)
CHECK(late, LATE)

static enum blkup_outcome check_no_magic(struct blkup_view *v, const struct blkup_hit *hit,
                                         struct blkup_found *ret)
{
        struct blkup_bytes b;

        (void) hit;
        BLKUP_FETCH(v, PLACE(NO_MAGIC), 8, &b);
        if (memcmp(b.data, "no magic", 8) != 0)
                return blkup_refuse(v, "not it");
        return act(v, PLACE(NO_MAGIC), NO_MAGIC, ret);
}

#define MAGIC(row, text) { .at = PLACE(row), .len = 8, .bytes = text }
static const struct blkup_magic magics[N_ROWS][2] = {
        [FIRST] = { MAGIC(FIRST, "first fs") },
        [RAID] = { MAGIC(RAID, "the raid") },
        [TOLERANT] = { MAGIC(TOLERANT, "tolerant") },
        [VFAT] = { MAGIC(VFAT, "the vfat") },
        [SECOND] = { MAGIC(SECOND, "secondfs") },
        [OTHER] = { MAGIC(OTHER, "of other") },
        [EACH_MAGIC] = { MAGIC(EACH_MAGIC, "each one"),
                         { .at = PLACE(EACH_MAGIC) + 64, .len = 8, .bytes = "each two" } },
        [ONE_MAGIC] = { MAGIC(ONE_MAGIC, "only one"),
                        { .at = PLACE(ONE_MAGIC) + 64, .len = 8, .bytes = "only two" } },
        [WHOLE] = { MAGIC(WHOLE, "on whole") },
        [LARGE] = { MAGIC(LARGE, "on large") },
        [TAIL] = { { .at = 4096, .len = 8, .bytes = "the tail", .anchor = BLKUP_FROM_END_4K } },
        [LATE] = { MAGIC(LATE, "the late") },
};
static const struct blkup_needed needs[] = { { .at = PLACE(NO_MAGIC), .len = 8 } };

#define FORMAT(name_, row, usage_, n, ...)                                                 \
        static const struct blkup_format format_##name_ = { .name = #name_,                \
                                                            .usage = BLKUP_USAGE_##usage_, \
                                                            .magics = magics[row],         \
                                                            .n_magics = n,                 \
                                                            .check = check_##name_,        \
                                                            __VA_ARGS__ }
FORMAT(first, FIRST, FILESYSTEM, 1, .flags = 0);
FORMAT(raid, RAID, RAID, 1, .flags = 0);
FORMAT(tolerant, TOLERANT, FILESYSTEM, 1, .flags = BLKUP_TOLERANT);
FORMAT(vfat, VFAT, FILESYSTEM, 1, .flags = 0);
FORMAT(second, SECOND, FILESYSTEM, 1, .flags = 0);
FORMAT(other, OTHER, OTHER, 1, .flags = 0);
FORMAT(each_magic, EACH_MAGIC, FILESYSTEM, 2, .flags = BLKUP_EVERY_MAGIC);
FORMAT(one_magic, ONE_MAGIC, FILESYSTEM, 2, .flags = 0);
FORMAT(whole, WHOLE, CRYPTO, 1, .flags = BLKUP_WHOLE_ONLY);
FORMAT(large, LARGE, FILESYSTEM, 1, .min_bytes = 32 << 20);
FORMAT(no_magic, NO_MAGIC, FILESYSTEM, 0, .needs = needs, .n_needs = 1);
FORMAT(tail, TAIL, RAID, 1, .flags = 0);
FORMAT(late, LATE, OTHER, 1, .flags = BLKUP_LATE);

const struct blkup_format *const blkup_formats[] = {
        &format_first,    &format_raid,       &format_tolerant,  &format_vfat,  &format_second,
        &format_other,    &format_each_magic, &format_one_magic, &format_whole, &format_large,
        &format_no_magic, &format_tail,       &format_late,
};
const unsigned blkup_n_formats = N_ROWS;

static enum blkup_outcome check_dos(struct blkup_view *v, const struct blkup_hit *hit,
                                    struct blkup_found *ret, struct blkup_entries *e)
{
        struct blkup_bytes b;

        (void) hit;
        BLKUP_FETCH(v, 0, 512, &b);
        blkup_found_string(ret, "PTUUID", "12345678");
        for (unsigned i = 0; v->wants_partitions && i < b.data[440]; i++) {
                const struct blkup_entry entry = {
                        .number = i + 1, .start_sectors = 2048 * (i + 1), .size_sectors = 2048, .type = 0x83
                };

                if (!e->entry(e, &entry))
                        break;
        }
        return BLKUP_FOUND;
}

static enum blkup_outcome check_second_table(struct blkup_view *v, const struct blkup_hit *hit,
                                             struct blkup_found *ret, struct blkup_entries *e)
{
        (void) hit;
        (void) ret;
        (void) e;
        return v->found_type ? blkup_refuse(v, "inside something") : BLKUP_FOUND;
}

static const struct blkup_magic dos_magic = { .at = 510, .len = 2, .bytes = "\x55\xaa" };
static const struct blkup_magic second_magic = { .at = 1024, .len = 8, .bytes = "a table!" };
static const struct blkup_table table_dos = {
        .name = "dos", .magics = &dos_magic, .n_magics = 1, .check = check_dos
};
static const struct blkup_table table_second = {
        .name = "second", .magics = &second_magic, .n_magics = 1, .check = check_second_table
};
const struct blkup_table *const blkup_tables[] = { &table_dos, &table_second };
const unsigned blkup_n_tables = 2;

/* -- a device -- */
#define SIZE (64u << 20)

static struct blkup_probe *prober;
static struct blkup_block_memory memory;
static struct blkup_block *device; /* what is probed: the memory, or something around it */
static enum blkup_verdict verdict;
static uint8_t pieces[64][32];
static unsigned n_pieces;

static void blank(uint64_t size)
{
        if (memory.block.ops)
                (void) blkup_block_close(&memory.block);
        blkup_block_memory_init(&memory, size, 512);
        device = &memory.block;
        n_pieces = 0;
        blkup_probe_set_flags(prober, 0);
        blkup_probe_set_usages(prober, 0);
        blkup_probe_set_budget(prober, 0);
        blkup_probe_set_area(prober, 0, 0);
        assert_int_equal(blkup_probe_set_types(prober, NULL, false, NULL), 0);
}

static uint8_t *put(uint64_t at, const void *bytes, size_t len)
{
        uint8_t *piece = pieces[n_pieces++];

        memset(piece, 0, sizeof(pieces[0]));
        memcpy(piece, bytes, len);
        assert_int_equal(blkup_block_memory_add(&memory.block, at, piece, sizeof(pieces[0])), 0);
        return piece;
}

static void put_number(uint8_t *to, uint64_t v)
{
        for (unsigned i = 0; i < 8; i++)
                to[i] = (uint8_t) (v >> (8 * i));
}

/* The magic of a row, and what its check is to do. */
static void plant(unsigned row, char action, uint64_t number)
{
        const struct blkup_magic *m = &magics[row][0];
        uint64_t at = row == TAIL ? (memory.block.info.size_bytes & ~UINT64_C(4095)) - 4096 : PLACE(row);
        uint8_t *piece = put(at, row == NO_MAGIC ? "no magic" : m->bytes, 8);

        piece[ACTION] = (uint8_t) action;
        put_number(piece + ACTION + 1, number);
        memcpy(piece + 24, "LABEL", 5);
}

static void look(void)
{
        memset(looked, 0, sizeof(looked));
        assert_int_equal(blkup_probe_block(prober, device, &verdict, NULL), 0);
}

static void expect_type(const char *type)
{
        const char *found = blkup_probe_lookup(prober, "TYPE");

        assert_int_equal(verdict, BLKUP_VERDICT_FOUND);
        assert_non_null(found);
        assert_string_equal(found, type);
}

static void expect_hits(const char *a, const char *b)
{
        assert_int_equal(blkup_probe_n_hits(prober), b ? 2 : 1);
        assert_string_equal(blkup_probe_hit(prober, 0).type, a);
        if (b)
                assert_string_equal(blkup_probe_hit(prober, 1).type, b);
}

static void expect_trouble(enum blkup_verdict v, const char *word)
{
        assert_int_equal(verdict, v);
        assert_non_null(strstr(blkup_probe_trouble(prober), word));
}

/* -- who wins -- */
static void each_format_is_found_alone(void **state)
{
        (void) state;
        for (unsigned row = 0; row < N_ROWS; row++) {
                blank(SIZE);
                plant(row, ' ', 0);
                look();
                expect_type(blkup_formats[row]->name);
                expect_hits(blkup_formats[row]->name, NULL);
                assert_string_equal(blkup_probe_lookup(prober, "LABEL"), "LABEL");
                assert_string_equal(blkup_probe_lookup(prober, "USAGE"),
                                    blkup_usage_name(blkup_formats[row]->usage));
                assert_int_equal(looked[row], 1);
        }
}

static void two_types_are_ambivalent(void **state)
{
        (void) state;
        blank(SIZE);
        plant(SECOND, ' ', 0);
        plant(FIRST, ' ', 0);
        put(510, "\x55\xaa", 2);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        expect_hits("first", "second");
        assert_int_equal(blkup_probe_n_values(prober), 0);
}

static void order_is_that_of_the_registry_not_of_the_reads(void **state)
{
        (void) state;
        blank(SIZE);
        plant(FIRST, 'N', 16 << 20); /* decided a round later than the other */
        plant(SECOND, ' ', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        expect_hits("first", "second");
}

static void a_tolerant_type_stands_beside_another(void **state)
{
        (void) state;
        blank(SIZE);
        plant(TOLERANT, ' ', 0);
        look();
        expect_type("tolerant");
        plant(SECOND, ' ', 0);
        look();
        /* One of them does not tolerate: two in all are too many. */
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        expect_hits("tolerant", "second");
}

static void raid_ends_the_search(void **state)
{
        (void) state;
        blank(SIZE);
        plant(RAID, ' ', 0);
        plant(SECOND, ' ', 0);
        put(510, "\x55\xaa", 2);
        look();
        expect_type("raid");
        expect_hits("raid", NULL);
        assert_null(blkup_probe_lookup(prober, "PTTYPE"));
        /* In the second place it makes two hits. */
        plant(FIRST, ' ', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        expect_hits("first", "raid");
}

static void crypto_ends_the_search_but_has_a_table(void **state)
{
        (void) state;
        blank(SIZE);
        plant(WHOLE, ' ', 0);
        plant(LARGE, ' ', 0);
        put(510, "\x55\xaa", 2);
        look();
        expect_type("whole");
        expect_hits("whole", NULL);
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "dos");
}

static void a_table_in_a_wiped_area_is_newer(void **state)
{
        (void) state;
        blank(SIZE);
        plant(RAID, 'W', 8192);
        put(510, "\x55\xaa", 2);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_FOUND);
        assert_null(blkup_probe_lookup(prober, "TYPE"));
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "dos");
        assert_int_equal(blkup_probe_n_hits(prober), 0);
        blank(SIZE);
        plant(RAID, 'W', 511); /* ends inside the table */
        put(510, "\x55\xaa", 2);
        look();
        expect_type("raid");
}

static void a_table_beside_a_file_system(void **state)
{
        (void) state;
        blank(SIZE);
        plant(SECOND, ' ', 0);
        put(510, "\x55\xaa", 2);
        look();
        expect_type("second");
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "dos");
        assert_string_equal(blkup_probe_lookup(prober, "PTUUID"), "12345678");
        /* A table is told what was found before it. */
        blank(SIZE);
        plant(SECOND, ' ', 0);
        put(1024, "a table!", 8);
        look();
        expect_type("second");
        assert_null(blkup_probe_lookup(prober, "PTTYPE"));
        blank(SIZE);
        put(1024, "a table!", 8);
        look();
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "second");
        blkup_probe_set_flags(prober, BLKUP_PROBE_NO_TABLES);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
}

/* -- magics, refusals -- */
static void a_refusal_ends_a_type_or_its_row(void **state)
{
        (void) state;
        blank(SIZE);
        plant(ONE_MAGIC, 'R', 0);
        put(PLACE(ONE_MAGIC) + 64, "only two", 8);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        assert_int_equal(looked[ONE_MAGIC], 1);
        plant(EACH_MAGIC, 'R', 0);
        put(PLACE(EACH_MAGIC) + 64, "each two", 8);
        look();
        expect_type("each_magic");
        assert_int_equal(looked[EACH_MAGIC], 2);
}

static void damaged_is_nothing(void **state)
{
        (void) state;
        blank(SIZE);
        plant(FIRST, 'D', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        assert_string_equal(blkup_probe_trouble(prober), "");
}

static void late_formats_are_looked_for_last(void **state)
{
        (void) state;
        blank(SIZE);
        plant(LATE, ' ', 0);
        plant(SECOND, ' ', 0);
        look();
        expect_type("second");
        assert_int_equal(looked[LATE], 0);
        blkup_probe_set_flags(prober, BLKUP_PROBE_STRICT);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        expect_hits("second", "late");
}

/* -- which formats are looked for -- */
static void kinds_of_device(void **state)
{
        (void) state;
        blank(SIZE);
        plant(WHOLE, ' ', 0);
        memory.block.info.kind = BLKUP_BLOCK_PARTITION;
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        memory.block.info.kind = BLKUP_BLOCK_DISK;
        look();
        expect_type("whole");

        blank(SIZE);
        plant(OTHER, ' ', 0);
        memory.block.info.is_cdrom = true;
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);

        blank(SIZE);
        plant(FIRST, ' ', 0);
        memory.block.info.is_private_dm = true;
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        assert_int_equal(looked[FIRST], 0);
}

static void sizes(void **state)
{
        (void) state;
        blank((32 << 20) - 1);
        plant(LARGE, ' ', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        blank(32 << 20);
        plant(LARGE, ' ', 0);
        look();
        expect_type("large");
        /* No superblock on 1024 bytes and less, but a table. */
        blank(1024);
        plant(FIRST, ' ', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        put(510 - 30, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x55\xaa", 32);
        look();
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "dos");
        blank(1025);
        plant(FIRST, ' ', 0);
        look();
        expect_type("first");
        blank(0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
}

static void a_tiny_device_takes_its_first_hit(void **state)
{
        (void) state;
        blank(1474560);
        plant(FIRST, ' ', 0);
        plant(SECOND, ' ', 0);
        look();
        expect_type("first");
        expect_hits("first", NULL);
        assert_int_equal(looked[SECOND], 0);
        blank(1474561);
        plant(FIRST, ' ', 0);
        plant(SECOND, ' ', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        /* No RAID of that size. */
        blank(1474560);
        plant(RAID, ' ', 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        /* A disk of that size with a table is asked for nothing else. */
        blank(1474560);
        plant(FIRST, ' ', 0);
        put(510, "\x55\xaa", 2);
        look();
        expect_type("first");
        memory.block.info.kind = BLKUP_BLOCK_DISK;
        look();
        assert_null(blkup_probe_lookup(prober, "TYPE"));
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "dos");
        assert_int_equal(looked[FIRST], 0);
}

static void filters(void **state)
{
        struct blkup_error err = { 0 };

        (void) state;
        blank(SIZE);
        plant(FIRST, ' ', 0);
        plant(SECOND, ' ', 0);
        put(510, "\x55\xaa", 2);
        assert_int_equal(blkup_probe_set_types(prober, "second,raid", false, NULL), 0);
        look();
        expect_type("second");
        assert_string_equal(blkup_probe_lookup(prober, "PTTYPE"), "dos");
        assert_int_equal(blkup_probe_set_types(prober, "second", true, NULL), 0);
        look();
        expect_type("first");
        assert_int_equal(blkup_probe_set_types(prober, "", true, NULL), 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        blkup_probe_set_usages(prober, BLKUP_USAGE_RAID | BLKUP_USAGE_OTHER);
        look();
        assert_null(blkup_probe_lookup(prober, "TYPE"));
        assert_int_equal(blkup_probe_set_types(prober, "first,,second", false, &err), -EINVAL);
        assert_int_equal(blkup_probe_set_types(prober, "firs", false, &err), -EINVAL);
        assert_int_equal(blkup_probe_set_types(prober, "firsts", false, &err), -EINVAL);
        assert_non_null(strstr(err.message, "'firsts'"));
        /* A list that was refused changed nothing. */
        blkup_probe_set_usages(prober, 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
}

static void areas(void **state)
{
        (void) state;
        blank(SIZE);
        plant(FIRST, ' ', 0);
        blkup_probe_set_area(prober, 512, 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        assert_int_equal(blkup_probe_size(prober), SIZE - 512);
        blkup_probe_set_area(prober, 0, 1 << 20);
        look();
        expect_type("first");
        assert_int_equal(blkup_probe_size(prober), 1 << 20);
        /* The tail belongs to the area. */
        blank(SIZE);
        put(8 << 20, "the tail", 8);
        blkup_probe_set_area(prober, 4096, (8 << 20));
        look();
        expect_type("tail");
        blkup_probe_set_area(prober, (uint64_t) SIZE + 1, 0);
        assert_int_equal(blkup_probe_block(prober, device, &verdict, NULL), -ERANGE);
        blkup_probe_set_area(prober, SIZE, 0);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
}

/* -- what is read -- */
static void a_round_brings_all_that_is_wanted(void **state)
{
        struct blkup_io_stats s;

        (void) state;
        blank(SIZE);
        plant(FIRST, 'N', 16 << 20);
        plant(SECOND, 'N', 24 << 20);
        look();
        blkup_probe_stats(prober, &s);
        /* The plan, then all four places at once. */
        assert_int_equal(s.rounds, 2);
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
}

static void no_sector_is_read_twice(void **state)
{
        const struct blkup_block_record *log;
        size_t n;

        (void) state;
        blank(SIZE);
        plant(FIRST, 'N', 16 << 20);
        plant(VFAT, 'N', PLACE(SECOND)); /* what the plan has read already */
        plant(SECOND, 'B', 70000);       /* over all of it */
        device = blkup_block_recorder_new(&memory.block, NULL);
        assert_non_null(device);
        look();
        log = blkup_block_recorder_log(device, &n);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < i; k++)
                        assert_false(log[i].at < log[k].at + log[k].len &&
                                     log[k].at < log[i].at + log[i].len);
        (void) blkup_block_close(device);
}

static void a_chain_is_followed(void **state)
{
        uint64_t at = 16 << 20;

        (void) state;
        blank(SIZE);
        plant(FIRST, 'C', at);
        for (unsigned i = 0; i < 20; i++, at += 1 << 20)
                put_number(put(at, "", 0), i < 19 ? at + (1 << 20) : 0);
        look();
        expect_type("first");
}

/* -- where it ends -- */
static void an_endless_chain_is_given_up(void **state)
{
        (void) state;
        blank(SIZE);
        plant(FIRST, 'L', 16 << 20);
        look();
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "gave up");
        /* It takes nothing from what else is there. */
        plant(SECOND, ' ', 0);
        look();
        expect_type("second");
}

static void endless_work_is_given_up(void **state)
{
        (void) state;
        blank(SIZE);
        plant(FIRST, 'Z', 0);
        look();
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "too much work");
        plant(SECOND, ' ', 0);
        look();
        expect_type("second");
}

static void the_budget_holds(void **state)
{
        struct blkup_io_stats s;

        (void) state;
        blank(SIZE);
        plant(FIRST, 'B', 4 << 20);
        blkup_probe_set_budget(prober, 1 << 20);
        look();
        blkup_probe_stats(prober, &s);
        assert_in_range(s.bytes, 1, 1 << 20);
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "budget");
        blkup_probe_set_budget(prober, 5 << 20);
        look();
        expect_type("first");
        /* Not even the plan fits. */
        blkup_probe_set_budget(prober, 1024);
        look();
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "budget");
        blkup_probe_stats(prober, &s);
        assert_in_range(s.bytes, 0, 1024);
}

/* -- errors -- */
static void around_a_fault(struct blkup_fault_rule rule)
{
        device = blkup_block_fault_new(&memory.block, &rule, 1);
        assert_non_null(device);
}

static void an_error_is_no_answer(void **state)
{
        (void) state;
        blank(SIZE);
        around_a_fault((struct blkup_fault_rule){
                .what = BLKUP_FAULT_ERROR, .is_for_good = true, .at = PLACE(SECOND), .len = 512 });
        look();
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "read error at 8192: Input/output error");
        /* What is elsewhere is found. */
        plant(FIRST, ' ', 0);
        look();
        expect_type("first");
        (void) blkup_block_close(device);

        blank(SIZE);
        plant(FIRST, 'U', 0);
        look();
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "gave up as told");
}

static void an_error_that_passes_is_forgotten(void **state)
{
        (void) state;
        for (uint64_t n = 1; n < 30; n++) {
                blank(SIZE);
                plant(FIRST, ' ', 0);
                around_a_fault((struct blkup_fault_rule){
                        .what = BLKUP_FAULT_ERROR, .nth = n, .at = 512, .len = SIZE });
                look();
                expect_type("first");
                (void) blkup_block_close(device);
        }
}

static void a_short_device_is_an_error_too(void **state)
{
        (void) state;
        blank(SIZE);
        around_a_fault((struct blkup_fault_rule){
                .what = BLKUP_FAULT_SHORT, .is_for_good = true, .at = SIZE - 8192, .len = 8192 });
        look();
        expect_trouble(BLKUP_VERDICT_UNKNOWN, "short read at");
        (void) blkup_block_close(device);
}

/* -- results -- */
static void partitions_are_listed_when_asked_for(void **state)
{
        uint8_t *piece;

        (void) state;
        blank(SIZE);
        piece = put(510 - 30, "", 0);
        memcpy(piece + 30, "\x55\xaa", 2);
        put(440, "\x03", 1);
        look();
        assert_int_equal(blkup_probe_n_partitions(prober), 0);
        blkup_probe_set_flags(prober, BLKUP_PROBE_PARTITIONS);
        look();
        assert_int_equal(blkup_probe_n_partitions(prober), 3);
        assert_int_equal(blkup_probe_partition(prober, 2)->number, 3);
        assert_int_equal(blkup_probe_partition(prober, 2)->start_sectors, 6144);
        assert_string_equal(blkup_probe_partition(prober, 2)->type, "0x83");
        assert_string_equal(blkup_probe_partition(prober, 2)->scheme, "dos");
        assert_null(blkup_probe_partition(prober, 3));
}

static void nothing_stays_from_the_run_before(void **state)
{
        (void) state;
        blank(SIZE);
        plant(FIRST, ' ', 0);
        put(510, "\x55\xaa", 2);
        look();
        assert_true(blkup_probe_n_values(prober) >= 5);
        blank(SIZE);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_NOTHING);
        assert_int_equal(blkup_probe_n_values(prober), 0);
        assert_int_equal(blkup_probe_n_hits(prober), 0);
        assert_null(blkup_probe_lookup(prober, "TYPE"));
        assert_string_equal(blkup_probe_trouble(prober), "");
        /* The same geometry again: the plan is kept, what was in memory is not. */
        plant(SECOND, ' ', 0);
        look();
        expect_type("second");
}

static void all_types_at_once(void **state)
{
        (void) state;
        blank(SIZE);
        for (unsigned row = 0; row < N_ROWS; row++)
                if (row != RAID && row != WHOLE)
                        plant(row, 'N', (16 + row) << 20);
        blkup_probe_set_flags(prober, BLKUP_PROBE_STRICT);
        look();
        assert_int_equal(verdict, BLKUP_VERDICT_AMBIVALENT);
        /* The tail is a RAID member: it ends the list. */
        assert_int_equal(blkup_probe_n_hits(prober), 10);
        assert_string_equal(blkup_probe_hit(prober, 9).type, "tail");
}

struct lines {
        unsigned reads, refused;
};

static void hear(void *to, const char *text)
{
        struct lines *l = to;

        l->reads += strncmp(text, "read at ", 8) == 0;
        l->refused += strstr(text, "refused as told") != NULL;
        assert_null(strchr(text, '\n'));
}

static void debug_lines(void **state)
{
        struct lines l = { 0 };
        struct blkup_io_stats s;

        (void) state;
        blank(SIZE);
        plant(FIRST, 'R', 0);
        blkup_probe_set_debug(prober, hear, &l);
        look();
        blkup_probe_set_debug(prober, NULL, NULL);
        blkup_probe_stats(prober, &s);
        assert_int_equal(l.reads, s.reads);
        assert_int_equal(l.refused, 1);
}

static int make_prober(void **state)
{
        (void) state;
        prober = blkup_probe_new();
        return prober ? 0 : -1;
}

static int free_prober(void **state)
{
        (void) state;
        prober = blkup_probe_unref(prober);
        (void) blkup_block_close(&memory.block);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_format_is_found_alone),
                cmocka_unit_test(two_types_are_ambivalent),
                cmocka_unit_test(order_is_that_of_the_registry_not_of_the_reads),
                cmocka_unit_test(a_tolerant_type_stands_beside_another),
                cmocka_unit_test(raid_ends_the_search),
                cmocka_unit_test(crypto_ends_the_search_but_has_a_table),
                cmocka_unit_test(a_table_in_a_wiped_area_is_newer),
                cmocka_unit_test(a_table_beside_a_file_system),
                cmocka_unit_test(a_refusal_ends_a_type_or_its_row),
                cmocka_unit_test(damaged_is_nothing),
                cmocka_unit_test(late_formats_are_looked_for_last),
                cmocka_unit_test(kinds_of_device),
                cmocka_unit_test(sizes),
                cmocka_unit_test(a_tiny_device_takes_its_first_hit),
                cmocka_unit_test(filters),
                cmocka_unit_test(areas),
                cmocka_unit_test(a_round_brings_all_that_is_wanted),
                cmocka_unit_test(no_sector_is_read_twice),
                cmocka_unit_test(a_chain_is_followed),
                cmocka_unit_test(an_endless_chain_is_given_up),
                cmocka_unit_test(endless_work_is_given_up),
                cmocka_unit_test(the_budget_holds),
                cmocka_unit_test(an_error_is_no_answer),
                cmocka_unit_test(an_error_that_passes_is_forgotten),
                cmocka_unit_test(a_short_device_is_an_error_too),
                cmocka_unit_test(partitions_are_listed_when_asked_for),
                cmocka_unit_test(nothing_stays_from_the_run_before),
                cmocka_unit_test(all_types_at_once),
                cmocka_unit_test(debug_lines),
        };

        return cmocka_run_group_tests(tests, make_prober, free_prober);
}
