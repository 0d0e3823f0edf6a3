/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The same changed images through the prober and through the machine's libblkid, as blkid -p calls it.
 *
 * usage: differential-libblkid SAMPLES DIFFERENCES [RUNS [SEED]]
 *
 * An image is a saved sample (tests/fuzz/samples) with a few bytes or its size changed, now and then with the
 * records of another sample laid over it. Each difference has a key, such as `lost ext4: superblock checksum
 * mismatch` (found by libblkid, refused by the prober with that reason), `extra scoutfs_meta`, `value vfat
 * LABEL`. DIFFERENCES lists the keys (patterns of fnmatch) that are known, each with its reason. Any other
 * key fails, and its image is kept as a sample in the working folder. With the same SEED the same images are
 * made. The last line is `N passed, N failed, N skipped`.
 */
#include "kit/kit.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <blkid/blkid.h>

#include "base/checked.h"

#define SAMPLE_MAX 65536
#define KEYS_MAX 4096
#define KEY_LEN 160

static struct kit_samples samples;

/* -- the list of what is known */
struct known {
        char pattern[KEY_LEN];
};
static struct known known[512];
static unsigned n_known;

static void read_known(const char *path)
{
        FILE *f = fopen(path, "re");
        char line[1024];

        if (!f)
                kit_die("%s: %s", path, strerror(errno));
        while (fgets(line, sizeof(line), f)) {
                char *tab = strchr(line, '\t');

                if (line[0] == '#' || line[0] == '\n')
                        continue;
                if (!tab || strlen(tab) < 4)
                        kit_die("%s: no reason for %s", path, line);
                if (n_known == BLKUP_ARRAY_SIZE(known))
                        kit_die("%s: too many lines", path);
                *tab = '\0';
                if (tab - line >= KEY_LEN)
                        kit_die("%s: too long: %s", path, line);
                memcpy(known[n_known++].pattern, line, (size_t) (tab - line) + 1);
        }
        (void) fclose(f);
}

/* -- what was seen */
struct seen {
        char key[KEY_LEN];
        uint64_t n;
        bool is_known;
};

/* libblkid is run in a child, which it may end: what was seen is shared. */
static struct shared {
        uint64_t run, done, equal, died;
        bool is_theirs; /* libblkid is at work */
        unsigned n_seen, n_unknown;
        struct seen seen[KEYS_MAX];
} *shared;

static void keep(const uint8_t *sample, size_t len, uint64_t run)
{
        char name[64];
        FILE *f;

        (void) snprintf(name, sizeof(name), "difference-%" PRIu64, run);
        f = fopen(name, "wbe");
        if (!f || fwrite(sample, 1, len, f) != len || fclose(f) != 0)
                kit_die("%s: cannot be written", name);
}

static void count(const char *key, const uint8_t *sample, size_t len, uint64_t run)
{
        struct seen *s;
        unsigned i = 0;

        while (i < shared->n_seen && strcmp(shared->seen[i].key, key) != 0)
                i++;
        s = &shared->seen[i];
        if (i == shared->n_seen) {
                if (i == KEYS_MAX)
                        kit_die("more than %d kinds of difference", KEYS_MAX);
                shared->n_seen++;
                (void) snprintf(s->key, sizeof(s->key), "%.*s", KEY_LEN - 1, key);
                for (unsigned k = 0; k < n_known && !s->is_known; k++)
                        if (fnmatch(known[k].pattern, key, 0) == 0) {
                                s->is_known = true;
                        }
                if (!s->is_known) {
                        (void) printf("not known: %s (difference-%" PRIu64 ")\n", key, run);
                        keep(sample, len, run);
                        shared->n_unknown++;
                }
        }
        s->n++;
}

/* -- the prober's side */
struct refusals {
        char lines[128][160];
        unsigned n;
};

static void hear(void *to, const char *text)
{
        struct refusals *r = to;

        if ((strstr(text, ": refused") || strstr(text, ": damaged") || strstr(text, ": unreadable")) &&
            r->n < BLKUP_ARRAY_SIZE(r->lines))
                (void) snprintf(r->lines[r->n++], sizeof(r->lines[0]), "%s", text);
}

/* Why a type was not found: the last reason that was given for it. */
static const char *reason_of(const struct refusals *r, const char *type)
{
        const char *reason = "no magic";
        size_t n = strlen(type);

        for (unsigned i = 0; i < r->n; i++)
                if (strncmp(r->lines[i], type, n) == 0 && r->lines[i][n] == ':') {
                        const char *colon = strchr(r->lines[i] + n + 1, ':');

                        reason = colon ? colon + 2 : "no reason";
                }
        return reason;
}

/* -- libblkid's side */
static blkid_probe their;
static int their_fd = -1;

static void lay_file(struct blkup_block_memory *m)
{
        if (ftruncate(their_fd, 0) < 0 || ftruncate(their_fd, (off_t) m->block.info.size_bytes) < 0)
                kit_die("a file of %" PRIu64 " bytes: %s", m->block.info.size_bytes, strerror(errno));
        for (size_t i = 0; i < m->n; i++)
                if (pwrite(their_fd, m->pieces[i].bytes, m->pieces[i].len, (off_t) m->pieces[i].at) !=
                    (ssize_t) m->pieces[i].len)
                        kit_die("a file in memory cannot be written: %s", strerror(errno));
}

static const char *their_value(const char *name)
{
        const char *data = NULL;
        size_t len;

        return blkid_probe_lookup_value(their, name, &data, &len) == 0 && data ? data : NULL;
}

static bool is_new_tag(const char *name)
{
        static const char *const names[] = { "FSSIZE", "FSLASTBLOCK", "FSBLOCKSIZE", "ENDIANNESS" };

        for (size_t i = 0; i < BLKUP_ARRAY_SIZE(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

/* Values of a type that both name; true: some differ. */
static bool compare_values(const struct blkup_probe *p, const char *type, char *key)
{
        for (size_t i = 0; i < blkup_probe_n_values(p); i++) {
                struct blkup_value v = blkup_probe_value(p, i);
                const char *value = their_value(v.name);

                if (is_new_tag(v.name) || (value && strcmp(value, v.value) == 0))
                        continue;
                (void) snprintf(key, KEY_LEN, "%s %s %s", value ? "value" : "tag of ours:", type, v.name);
                return true;
        }
        for (int i = 0; i < blkid_probe_numof_values(their); i++) {
                const char *name, *data;
                size_t len;

                if (blkid_probe_get_value(their, i, &name, &data, &len) < 0 || blkup_probe_lookup(p, name))
                        continue;
                (void) snprintf(key, KEY_LEN, "tag of theirs: %s %s", type, name);
                return true;
        }
        return false;
}

/* All types that libblkid finds on the superblocks' side, in its order, as a safe probe goes through them. */
#define HITS_MAX 32
struct hits {
        char types[HITS_MAX][64];
        unsigned n;
};

static void their_hits(bool is_tiny, struct hits *ret)
{
        ret->n = 0;
        blkid_reset_probe(their);
        blkid_probe_enable_partitions(their, 0);
        while (ret->n < HITS_MAX && blkid_do_probe(their) == 0) {
                const char *type = their_value("TYPE"), *usage = their_value("USAGE");

                if (!type)
                        continue;
                (void) snprintf(ret->types[ret->n++], sizeof(ret->types[0]), "%s", type);
                if (is_tiny || (usage && (strcmp(usage, "raid") == 0 || strcmp(usage, "crypto") == 0)))
                        break;
        }
        blkid_probe_enable_partitions(their, 1);
}

static bool has_type(const struct hits *h, const char *type)
{
        for (unsigned i = 0; i < h->n; i++)
                if (strcmp(h->types[i], type) == 0)
                        return true;
        return false;
}

/*
 * The two lists in the order of the registry. What a hit that ends the search (of a RAID member, of
 * encryption, on a tiny device any) keeps the other side from looking for is no difference of its own. false:
 * none differs.
 */
static bool compare_hits(const struct blkup_probe *p, const struct hits *ours, const struct hits *theirs,
                         const struct refusals *r, void (*tell)(const char *key, void *to), void *to)
{
        bool ours_ended = false, theirs_ended = false, differs = false;
        char key[KEY_LEN];

        for (unsigned i = 0; i < blkup_n_formats; i++) {
                const struct blkup_format *f = blkup_formats[i];
                bool ends = p->view.is_tiny || (f->usage & (BLKUP_USAGE_RAID | BLKUP_USAGE_CRYPTO)) != 0;
                bool in_ours = !ours_ended && has_type(ours, f->name),
                     in_theirs = !theirs_ended && has_type(theirs, f->name);

                if (in_theirs && !in_ours && !ours_ended) {
                        (void) snprintf(key, KEY_LEN, "lost %s: %s", f->name, reason_of(r, f->name));
                        tell(key, to);
                        differs = true;
                }
                if (in_ours && !in_theirs && !theirs_ended) {
                        (void) snprintf(key, KEY_LEN, "extra %s", f->name);
                        tell(key, to);
                        differs = true;
                }
                ours_ended |= in_ours && ends;
                theirs_ended |= in_theirs && ends;
        }
        return differs;
}

/* Says what differs through tell(); what follows from another difference is not said. */
static bool compare(const struct blkup_probe *p, enum blkup_verdict verdict, int rc, const struct refusals *r,
                    void (*tell)(const char *key, void *to), void *to)
{
        const char *theirs_sb = rc == 0 ? their_value("TYPE") : NULL,
                   *theirs_pt = rc == 0 ? their_value("PTTYPE") : NULL;
        const char *ours_sb = blkup_probe_lookup(p, "TYPE"), *ours_pt = blkup_probe_lookup(p, "PTTYPE");
        struct hits ours = { .n = 0 }, theirs;
        char key[2 * KEY_LEN];
        bool differs, is_same = !ours_sb == !theirs_sb && (!ours_sb || strcmp(ours_sb, theirs_sb) == 0);

        if (verdict == BLKUP_VERDICT_AMBIVALENT && rc == -2)
                return false;
        if (is_same && !ours_pt == !theirs_pt && (!ours_pt || strcmp(ours_pt, theirs_pt) == 0) && rc != -2 &&
            verdict != BLKUP_VERDICT_AMBIVALENT && verdict != BLKUP_VERDICT_UNKNOWN) {
                if (!compare_values(p, ours_sb ? ours_sb : ours_pt ? ours_pt : "nothing", key))
                        return false;
                tell(key, to);
                return true;
        }
        if (verdict == BLKUP_VERDICT_UNKNOWN) {
                (void) snprintf(key, KEY_LEN, "unknown: %s, theirs %s", blkup_probe_trouble(p),
                                theirs_sb ? theirs_sb : theirs_pt ? theirs_pt : "nothing");
                tell(key, to);
                return true;
        }
        if (rc == -1) {
                (void) snprintf(key, KEY_LEN, "libblkid failed, ours %s",
                                ours_sb   ? ours_sb
                                : ours_pt ? ours_pt
                                          : "ambivalent");
                tell(key, to);
                return true;
        }
        if (!is_same || rc == -2 || verdict == BLKUP_VERDICT_AMBIVALENT) {
                for (size_t i = 0; i < blkup_probe_n_hits(p) && ours.n < HITS_MAX; i++)
                        (void) snprintf(ours.types[ours.n++], sizeof(ours.types[0]), "%s",
                                        blkup_probe_hit(p, i).type);
                their_hits(p->view.is_tiny, &theirs);
                differs = compare_hits(p, &ours, &theirs, r, tell, to);
                if (!differs) {
                        (void) snprintf(key, sizeof(key),
                                        "the same hits (%s, %s), another verdict: ours %u, theirs %d",
                                        ours.n > 0 ? ours.types[0] : "none",
                                        ours.n > 1 ? ours.types[1] : "none", (unsigned) verdict & 7, rc);
                        tell(key, to);
                }
                return true;
        }
        if (theirs_pt)
                (void) snprintf(key, KEY_LEN, "lost table %s: %s%s%s", theirs_pt, reason_of(r, theirs_pt),
                                ours_pt ? ", ours " : "", ours_pt ? ours_pt : "");
        else
                (void) snprintf(key, KEY_LEN, "extra table %s", ours_pt);
        tell(key, to);
        return true;
}

/* The image at hand, for tell(). */
struct image {
        const uint8_t *bytes;
        size_t len;
        uint64_t run;
};

static void tell(const char *key, void *to)
{
        const struct image *i = to;

        count(key, i->bytes, i->len, i->run);
}

/* -- images */
static size_t change(uint8_t *to, size_t cap, uint64_t *state)
{
        const struct kit_sample *s = &samples.list[kit_random(state) % samples.n];
        unsigned n = (unsigned) (kit_random(state) % 4);
        size_t len = s->len, from = KIT_SAMPLE_HEADER + KIT_RECORD_HEADER;

        if (len < KIT_SAMPLE_HEADER || len > cap / 2 || s->bytes[0] & KIT_SAMPLE_SESSION)
                return 0;
        memcpy(to, s->bytes, len);
        to[0] = 0;
        if (kit_random(state) % 8 == 0) {
                const struct kit_sample *other = &samples.list[kit_random(state) % samples.n];

                if (other->len > KIT_SAMPLE_HEADER && other->len < cap / 2 &&
                    !(other->bytes[0] & KIT_SAMPLE_SESSION)) {
                        memcpy(to + len, other->bytes + KIT_SAMPLE_HEADER, other->len - KIT_SAMPLE_HEADER);
                        len += other->len - KIT_SAMPLE_HEADER;
                }
        }
        for (unsigned i = 0; i < n && len > from; i++) {
                uint8_t *at = to + from + kit_random(state) % (len - from);

                switch (kit_random(state) % 4) {
                case 0:
                        *at ^= (uint8_t) (1u << kit_random(state) % 8);
                        break;
                case 1:
                        *at = (uint8_t) kit_random(state);
                        break;
                case 2:
                        *at = 0;
                        break;
                default:
                        *at = 0xff;
                        break;
                }
        }
        if (kit_random(state) % 8 == 0)
                to[1 + kit_random(state) % 4] ^= (uint8_t) (1u << kit_random(state) % 8);
        return len;
}

static int by_number(const void *a, const void *b)
{
        const struct seen *x = a, *y = b;

        return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->key, y->key);
}

static void work(uint64_t from, uint64_t runs, uint64_t seed)
{
        static uint8_t image[SAMPLE_MAX];
        static struct refusals refusals;
        struct kit_bench b;

        kit_bench_init(&b);
        b.again_every = 0;
        blkup_probe_set_debug(b.p, hear, &refusals);
        their = blkid_new_probe();
        their_fd = memfd_create("image", MFD_CLOEXEC);
        if (!their || their_fd < 0)
                kit_die("no probe of libblkid, or no file in memory");
        blkid_probe_enable_superblocks(their, 1);
        blkid_probe_set_superblocks_flags(their, BLKID_SUBLKS_LABEL | BLKID_SUBLKS_UUID | BLKID_SUBLKS_TYPE |
                                                         BLKID_SUBLKS_SECTYPE | BLKID_SUBLKS_USAGE |
                                                         BLKID_SUBLKS_VERSION);
        blkid_probe_enable_partitions(their, 1);
        blkid_probe_set_partitions_flags(their, BLKID_PARTS_ENTRY_DETAILS);

        for (shared->run = from; shared->run < runs; shared->run++) {
                uint64_t state = (seed << 40 ^ shared->run) * 0x9e3779b97f4a7c15;
                size_t len = change(image, sizeof(image), &state);
                struct image at_hand = { .bytes = image, .len = len, .run = shared->run };
                enum blkup_verdict verdict;
                int rc;

                if (len == 0)
                        continue;
                refusals.n = 0;
                (void) kit_sample_lay(image, len, &b.memory, b.p);
                if (b.memory.block.info.size_bytes > UINT64_C(1) << 44)
                        continue; /* a file in memory has an end */
                verdict = kit_bench_look(&b);
                lay_file(&b.memory);
                shared->done++;
                shared->is_theirs = true;
                rc = blkid_probe_set_device(their, their_fd, 0, 0) < 0 ? 1 : blkid_do_safeprobe(their);
                shared->equal += !compare(b.p, verdict, rc, &refusals, tell, &at_hand);
                shared->is_theirs = false;
        }
        blkid_free_probe(their);
        (void) close(their_fd);
        kit_bench_free(&b);
}

/* A child works from `from` on; returns where to go on, which is behind an image that libblkid did not
 * survive. */
static uint64_t work_apart(uint64_t from, uint64_t runs, uint64_t seed)
{
        FILE *said = tmpfile();
        int status;
        pid_t pid;

        (void) fflush(stdout);
        pid = said ? fork() : -1;
        if (pid < 0)
                kit_die("no child: %s", strerror(errno));
        if (pid == 0) {
                /* A sanitizer's report on libblkid is long, and not about us. */
                (void) dup2(fileno(said), STDERR_FILENO);
                work(from, runs, seed);
                (void) fflush(stdout);
                _exit(0);
        }
        if (waitpid(pid, &status, 0) != pid)
                kit_die("the child is lost: %s", strerror(errno));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                runs = shared->run;
        else if (shared->is_theirs) {
                shared->is_theirs = false;
                shared->died++;
                runs = shared->run + 1;
        } else {
                char line[512];

                rewind(said);
                while (fgets(line, sizeof(line), said))
                        (void) fputs(line, stderr);
                kit_die("the prober, or this test, ended with image %" PRIu64, shared->run);
        }
        (void) fclose(said);
        return runs;
}

int main(int argc, char **argv)
{
        uint64_t runs = getenv("BLKUP_SOAK") ? 1000000 : 20000, seed = 1;

        if (argc < 3) {
                (void) fputs("usage: differential-libblkid SAMPLES DIFFERENCES [RUNS [SEED]]\n", stderr);
                return 2;
        }
        if (argc > 3)
                runs = strtoull(argv[3], NULL, 0);
        if (argc > 4)
                seed = strtoull(argv[4], NULL, 0);
        read_known(argv[2]);
        for (unsigned k = 0; kit_target(k); k++)
                kit_samples_add(&samples, argv[1], kit_target(k), UINT_MAX);
        if (samples.n == 0)
                kit_die("%s: no samples", argv[1]);
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                kit_die("memory exhausted");
        for (uint64_t next = 0; next < runs;) /* ends: next grows */
                next = work_apart(next, runs, seed);

        qsort(shared->seen, shared->n_seen, sizeof(shared->seen[0]), by_number);
        for (unsigned i = 0; i < shared->n_seen; i++)
                (void) printf("%10" PRIu64 " %s%s\n", shared->seen[i].n,
                              shared->seen[i].is_known ? "" : "NOT KNOWN: ", shared->seen[i].key);
        kit_samples_free(&samples);
        (void) printf("%" PRIu64 " images, %" PRIu64
                      " with the same answer, %u kinds of difference, %u of them not known; libblkid "
                      "did not survive %" PRIu64 "\n",
                      shared->done, shared->equal, shared->n_seen, shared->n_unknown, shared->died);
        (void) printf("%d passed, %d failed, 0 skipped\n", shared->n_unknown == 0, shared->n_unknown > 0);
        return shared->n_unknown > 0;
}
