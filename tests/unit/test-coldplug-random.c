/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random fstabs on the made-up machine of test-coldplug.c: below each other, several for one place or one
 * device, absent, silent, nofail, ordered among themselves, left out. Each run ends in its time, each line
 * has an answer with a reason, who can be mounted is, and nobody is below what is not there.
 */
#include "cold-recorder.h"

#define MAX_LINES 14
#define WAIT_NS (300 * MS)
#define DEVICE_NS (700 * MS)
#define ALLOWED_NS (WAIT_NS + DEVICE_NS + 2000 * MS)

static char text[4096];
static uint64_t seed;

static unsigned draw(unsigned n)
{
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (unsigned) (seed >> 33) % n;
}

#define UU "UUID=00000000-0000-4000-8000-0000000000"

/* is_good: mounted when its parents are. */
static const struct source {
        const char *name;
        bool is_good, is_silent;
} sources[] = {
        { UU "01", true, false }, { "/dev/sda", true, false }, { UU "02", true, false },
        { "/dev/sdb", true, false }, { UU "03", true, false }, { UU "08", true, false },
        { UU "0e", true, false }, { "tmpfs", true, false }, { "/dev/sdo", true, false },
        { UU "01", true, false }, { UU "02", true, false }, { UU "0b", true, false },
        { UU "cc", false, false }, { UU "cd", false, false }, { "/dev/absent", false, false },
        { UU "06", false, true }, { "/dev/sdf", false, true }, { "/dev/sdd", false, false },
        { "/dev/sde", false, false }, { UU "09", false, false }, { UU "07", false, false },
        { "server:/x", false, true },
};

static const char *const targets[] = { "/a", "/a/b", "/a/b/c", "/d", "/d/e",
                                       "/a", "/f",   "/a/g",   "/d", "/d/e/h" };

static void make_line(char *to, size_t cap, const struct source *s)
{
        char options[256] = "rw";
        size_t n = strlen(options);

        if (draw(3) == 0)
                n += (size_t) snprintf(options + n, sizeof(options) - n, ",nofail");
        if (draw(5) == 0)
                n += (size_t) snprintf(options + n, sizeof(options) - n, ",x-systemd.after=%s",
                                       targets[draw(BLKUP_ARRAY_SIZE(targets))]);
        if (draw(7) == 0)
                (void) snprintf(options + n, sizeof(options) - n, ",x-systemd.before=%s",
                                targets[draw(BLKUP_ARRAY_SIZE(targets))]);
        (void) snprintf(to, cap, "%s %s %s %s 0 %u\n", s->name, targets[draw(BLKUP_ARRAY_SIZE(targets))],
                        strcmp(s->name, "tmpfs") == 0        ? "tmpfs"
                        : strncmp(s->name, "server", 6) == 0 ? "nfs"
                                                             : "ext4",
                        options, s->name[0] == 't' || s->name[0] == 's' ? 0 : draw(4));
}

static const struct source *source_of(const struct blkup_coldplug_entry *e)
{
        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(sources); i++)
                if (strcmp(sources[i].name, e->source) == 0)
                        return &sources[i];
        fail_msg("%s is nowhere", e->source);
        return NULL;
}

static bool is_below(const char *a, const char *b)
{
        return strlen(a) > strlen(b) && strncmp(a, b, strlen(b)) == 0 && a[strlen(b)] == '/';
}

static unsigned n_bad;

static void bad(const struct blkup_coldplug_result *r, size_t i, const char *what)
{
        const struct blkup_coldplug_entry *e = &r->entries[i];

        print_error("%s: line %zu, %s\n", what, i + 1, text);
        for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                print_error("  %s: %s\n", blkup_coldplug_state_name(e->steps[k].state),
                            e->steps[k].text ? e->steps[k].text : "");
        for (size_t k = 0; k < r->n_entries; k++)
                print_error("  line %zu ready %d left out %d\n", k + 1, r->entries[k].is_ready,
                            r->entries[k].is_left_out);
        n_bad++;
}

/* Of the lines above the place of e: is there one ready for each place, and for which is there none? */
static void look_above(const struct blkup_coldplug_result *r, const struct blkup_coldplug_entry *e,
                       bool *ret_all, bool *ret_none)
{
        *ret_all = true;
        *ret_none = false;
        for (size_t k = 0; k < r->n_entries; k++) {
                bool any = false, left_out = false;

                if (!is_below(e->target, r->entries[k].target))
                        continue;
                for (size_t m = 0; m < r->n_entries; m++)
                        if (strcmp(r->entries[m].target, r->entries[k].target) == 0) {
                                any = any || r->entries[m].is_ready;
                                left_out = left_out || r->entries[m].is_left_out;
                        }
                *ret_all = *ret_all && (any || left_out);
                *ret_none = *ret_none || (!any && !left_out);
        }
}

static void judge(const struct blkup_coldplug_result *r)
{
        for (size_t i = 0; i < r->n_entries; i++) {
                const struct blkup_coldplug_entry *e = &r->entries[i];
                bool all, none, reason = false;

                if (e->is_left_out) {
                        if (e->is_ready)
                                bad(r, i, "ready, but left out");
                        continue;
                }
                for (size_t k = 0; k < BLKUP_COLDPLUG_STAGES; k++)
                        reason = reason || (e->steps[k].text && *e->steps[k].text);
                look_above(r, e, &all, &none);
                if (!e->is_ready && !reason)
                        bad(r, i, "no reason");
                if (e->is_ready && none)
                        bad(r, i, "ready, below what is not");
                if (!e->is_ready && all && source_of(e)->is_good)
                        bad(r, i, "not ready");
                if (e->is_ready && !source_of(e)->is_good)
                        bad(r, i, "ready, of what is not there");
                if (r->end_ns - r->start_ns > ALLOWED_NS)
                        bad(r, i, "late");
        }
}

static void too_late(int sig)
{
        static const char said[] = "never ended:\n";

        (void) sig;
        (void) !write(2, said, sizeof(said) - 1);
        (void) !write(2, text, strlen(text));
        abort();
}

static void start_run(struct world *w, struct blkup_coldplug_settings *s, bool may_hang)
{
        const struct blkup_coldplug_ops ops = { .to = w, .open = world_open, .status = world_status,
                                                .finish = world_finish, .check = world_check,
                                                .mount = world_mount, .swap = world_swap };
        struct blkup_fstab *t = NULL;
        struct blkup_coldplug *c = NULL;

        assert_int_equal(blkup_fstab_parse(text, strlen(text), &t), 0);
        start_world(w);
        w->may_hang = may_hang;
        w->seed = seed;
        w->delay_us = draw(4) * 3000;
        s->ops = &ops;
        s->fstab = t;
        s->root = w->root.path;
        s->device_ns = DEVICE_NS;
        s->late_ns = 20 * MS;
        s->no_cage = s->no_modules = s->no_assembly = true;
        s->finish = BLKUP_COLDPLUG_FINISH_AUTO;
        s->uevent_fd = -1;
        s->workers = draw(2) == 0 ? 0 : 2 + draw(16);
        (void) alarm(30);
        assert_int_equal(blkup_coldplug_run(s, &c, NULL), 0);
        (void) alarm(0);
        have_reasons(blkup_coldplug_result(c));
        judge(blkup_coldplug_result(c));
        blkup_coldplug_unref(c);
        blkup_fstab_free(t);
        end_world(w);
}

static void run_one(void)
{
        struct blkup_coldplug_settings s = { .wait_ns = draw(3) == 0 ? WAIT_NS : 0 };
        unsigned n = 2 + draw(MAX_LINES - 2);
        bool is_silence_there = draw(4) == 0;
        const char *only[3];
        struct world w;
        size_t used = 0;

        for (unsigned i = 0; i < n; i++) {
                const struct source *src = &sources[draw(BLKUP_ARRAY_SIZE(sources))];

                while (!is_silence_there && src->is_silent) /* ends: most are not */
                        src = &sources[draw(BLKUP_ARRAY_SIZE(sources))];
                make_line(text + used, sizeof(text) - used, src);
                used = strlen(text);
        }
        if (draw(4) == 0) {
                s.only = only;
                s.n_only = 1 + draw(3);
                for (size_t i = 0; i < s.n_only; i++)
                        only[i] = sources[draw(BLKUP_ARRAY_SIZE(sources))].name;
        }
        start_run(&w, &s, is_silence_there);
        if (n_bad > 0)
                print_error("wait %d, workers %u, only %zu: %s %s %s\n", s.wait_ns > 0, s.workers, s.n_only,
                            s.n_only > 0 ? only[0] : "", s.n_only > 1 ? only[1] : "",
                            s.n_only > 2 ? only[2] : "");
}

static void random_fstabs(void **state)
{
        unsigned runs = getenv("BLKUP_SOAK") ? 300 : 40;
        uint64_t seeds[] = { 1, 20240229, (uint64_t) time(NULL) };

        (void) state;
        for (size_t k = 0; k < BLKUP_ARRAY_SIZE(seeds); k++) {
                seed = seeds[k];
                print_message("seed %" PRIu64 ", %u runs\n", seed, runs);
                for (unsigned i = 0; i < runs && n_bad == 0; i++)
                        run_one();
        }
        assert_int_equal(n_bad, 0);
}

/* The first line of a device decides how it is mounted; but this one lies below the last, which stands where
 * another does, so that it is waited for late. */
static void below_a_later_line_of_its_device(void **state)
{
        (void) state;
        for (unsigned i = 0; i < 40 && n_bad == 0; i++) {
                struct blkup_coldplug_settings s = { 0 };
                struct world w;

                (void) snprintf(text, sizeof(text), "%s",
                                "/dev/sda /a/b/c ext4 x-systemd.after=/a 0 2\n" UU "01 /a/b ext4 rw 0 2\n" UU
                                "02 /a ext4 rw 0 0\n/dev/sda /a/b ext4 rw 0 2\n");
                start_run(&w, &s, false);
        }
        assert_int_equal(n_bad, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(below_a_later_line_of_its_device),
                cmocka_unit_test(random_fstabs),
        };

        make_areas();
        (void) signal(SIGALRM, too_late);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
