/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blkup lazyinit status: how far the kernel's own thread is with a mounted file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cmd-lazyinit.h"
#include "cli/output.h"
#include "cli/size.h"
#include "host/mountinfo.h"

#define SAMPLE_NS UINT64_C(1000000000)

/* One look at it, and what the mount table says. */
struct look {
        struct blkup_lazyinit_status s;
        uint64_t at_ns;
};

struct target {
        const char *name;
        char device[512];
        bool is_mounted, is_off; /* is_off: noinit_itable, or read-only */
        char mult[24];           /* init_itable; "" when it is not given */
};

/* The kernel has one thread of this name for all file systems, and none when it has nothing to do. */
static bool has_thread(void)
{
        struct dirent *e;
        bool found = false;
        DIR *d = opendir("/proc");

        while (d && !found && (e = readdir(d))) {
                char path[300], comm[32];
                ssize_t n;
                int fd;

                if (e->d_name[0] < '0' || e->d_name[0] > '9')
                        continue;
                (void) snprintf(path, sizeof(path), "/proc/%.255s/comm", e->d_name);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                n = fd < 0 ? -1 : read(fd, comm, sizeof(comm) - 1);
                (void) blkup_close(fd);
                found = n >= 13 && strncmp(comm, "ext4lazyinit\n", 13) == 0;
        }
        if (d)
                (void) closedir(d);
        return found;
}

static int resolve(const char *name, struct target *t)
{
        struct blkup_mountinfo *mounts = NULL;
        const struct blkup_mount *m = NULL;
        struct stat st;
        dev_t dev;

        *t = (struct target){ .name = name };
        if (stat(name, &st) < 0)
                return -errno;
        dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
        (void) snprintf(t->device, sizeof(t->device), "%s", name);
        if (S_ISREG(st.st_mode))
                return 0;
        if (blkup_mountinfo_load(NULL, &mounts, NULL) == 0)
                m = blkup_mountinfo_by_device(mounts, major(dev), minor(dev), NULL);
        if (m) {
                t->is_mounted = true;
                t->is_off = m->is_read_only ||
                            blkup_mount_option(m->super_options, "noinit_itable", NULL, 0) == 0;
                if (blkup_mount_option(m->super_options, "init_itable", t->mult, sizeof(t->mult)) < 0)
                        t->mult[0] = '\0';
        }
        if (!S_ISBLK(st.st_mode)) {
                (void) snprintf(t->device, sizeof(t->device), "/dev/block/%u:%u", major(dev), minor(dev));
                if (access(t->device, F_OK) < 0 && m)
                        (void) snprintf(t->device, sizeof(t->device), "%s", m->source);
        }
        blkup_mountinfo_free(mounts);
        return 0;
}

static int take_look(const struct target *t, struct look *ret)
{
        struct blkup_error err = { 0 };
        int r = blkup_lazyinit_status(t->device, &ret->s, &err);

        ret->at_ns = blkup_now_ns();
        if (r < 0)
                blkup_cli_error("lazyinit", "%s", *err.message ? err.message : blkup_error_text(-r));
        return r;
}

static void print_json(const struct target *t, const struct look *now, double rate, bool thread)
{
        struct blkup_json j;

        blkup_json_init(&j, blkup_cli_file_sink, stdout, false);
        blkup_json_begin_object(&j);
        blkup_json_key(&j, "device");
        blkup_json_string(&j, t->name);
        blkup_json_key(&j, "mounted");
        blkup_json_bool(&j, t->is_mounted);
        blkup_json_key(&j, "thread");
        blkup_json_bool(&j, thread);
        blkup_json_key(&j, "groups");
        blkup_json_u64(&j, now->s.groups);
        blkup_json_key(&j, "groups_left");
        blkup_json_u64(&j, now->s.groups_left);
        blkup_json_key(&j, "bytes_left");
        blkup_json_u64(&j, now->s.bytes_left);
        blkup_json_key(&j, "groups_per_s");
        blkup_json_double(&j, rate, 3);
        blkup_json_key(&j, "eta_s");
        if (rate > 0)
                blkup_json_double(&j, now->s.groups_left / rate, 1);
        else
                blkup_json_null(&j);
        blkup_json_end_object(&j);
        blkup_json_newline(&j);
        (void) !blkup_json_finish(&j);
}

static void print_text(const struct target *t, const struct look *now, double rate, bool thread)
{
        char name[1024], left[32], eta[32];

        (void) blkup_encode_terminal(t->name, strlen(t->name), name, sizeof(name));
        if (!now->s.has_group_checksums) {
                printf("%s: nothing to do: it has no group checksums\n", name);
                return;
        }
        if (now->s.groups_left == 0) {
                printf("%s: done, %" PRIu32 " groups\n", name, now->s.groups);
                return;
        }
        blkup_cli_format_size(now->s.bytes_left, left, sizeof(left));
        printf("%s: %" PRIu32 " of %" PRIu32 " groups left, %s", name, now->s.groups_left, now->s.groups,
               left);
        if (!t->is_mounted)
                printf("; not mounted: blkup lazyinit can finish it");
        else if (t->is_off)
                printf("; mounted read-only or with noinit_itable: nobody works on it");
        else if (rate > 0) {
                blkup_cli_lazyinit_format_time((uint64_t) (now->s.groups_left / rate * 1e9), eta,
                                               sizeof(eta));
                printf("; %.1f groups/s, %s left", rate, eta);
        } else
                printf("; %s", thread ? "no progress at the moment" : "the kernel's thread does not run");
        printf("\n");
}

int blkup_cli_lazyinit_status(const struct blkup_cli_command *self,
                              const struct blkup_cli_lazyinit_request *q)
{
        struct target t;
        struct look first, now;
        double rate = 0;
        int r;

        if (q->n_operands != 2)
                return blkup_cli_usage_error(self, "status takes one device or folder");
        r = resolve(q->operands[1], &t);
        if (r < 0) {
                blkup_cli_error("lazyinit", "%s: %s", q->operands[1], blkup_error_text(-r));
                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
        }
        blkup_cli_lazyinit_catch_signals();
        if (take_look(&t, &first) < 0)
                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
        now = first;
        /* Ends: it is done, or a signal came; without --watch after one turn. */
        do {
                bool thread = has_thread();

                if (now.s.groups_left > 0 && t.is_mounted && !t.is_off) {
                        struct look before = now;

                        blkup_sleep_until_ns(blkup_now_ns() + SAMPLE_NS, &blkup_cli_lazyinit_stop);
                        if (take_look(&t, &now) < 0)
                                return BLKUP_CLI_LAZYINIT_EXIT_OTHER;
                        /* Of the last second; while watching, smoothed over the last few. */
                        if (now.at_ns > before.at_ns && before.s.groups_left >= now.s.groups_left) {
                                double last = (double) (before.s.groups_left - now.s.groups_left) * 1e9 /
                                              (double) (now.at_ns - before.at_ns);

                                rate = rate > 0 ? rate * 0.7 + last * 0.3 : last;
                        }
                }
                if (q->json)
                        print_json(&t, &now, rate, thread);
                else
                        print_text(&t, &now, rate, thread);
                if (fflush(stdout) != 0)
                        break;
        } while (q->watch && now.s.groups_left > 0 && t.is_mounted && !t.is_off && !blkup_cli_lazyinit_stop);
        r = now.s.groups_left > 0 ? BLKUP_CLI_LAZYINIT_EXIT_LEFT : BLKUP_CLI_LAZYINIT_EXIT_DONE;
        return blkup_cli_finish_stdout("lazyinit", r, BLKUP_CLI_LAZYINIT_EXIT_OTHER);
}
