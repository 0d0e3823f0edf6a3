/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <blkup/coldplug.h>

#include "base/error.h"
#include "cli/coldplug-output.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/timeline.h"

enum {
        OPT_DRY_RUN = 1,
        OPT_ONLY,
        OPT_MOUNT,
        OPT_FSTAB,
        OPT_IMAGE,
        OPT_ROOT,
        OPT_NO_MOUNT,
        OPT_FINISH,
        OPT_FSCK,
        OPT_WAIT,
        OPT_TIMEOUT,
        OPT_JOBS,
        OPT_JSON,
        OPT_TIMELINE,
        OPT_HIBERNATION,
        OPT_NO_CAGE,
};

static const struct blkup_cli_option options[] = {
        { OPT_DRY_RUN, 0, "dry-run", BLKUP_CLI_NO_ARG, NULL, NULL, "identify, and say what would be done" },
        { OPT_ONLY, 0, "only", BLKUP_CLI_ARG, "TAG", NULL,
          "only entries of this device: UUID=..., LABEL=...,\na path; may be given again" },
        { OPT_MOUNT, 0, "mount", BLKUP_CLI_ARG, "TAG:DIR", NULL,
          "mount this too, nosuid and nodev; may be given again" },
        { OPT_FSTAB, 'T', "fstab", BLKUP_CLI_ARG, "FILE", NULL, "another fstab than /etc/fstab" },
        { OPT_IMAGE, 0, "image", BLKUP_CLI_ARG, "FILE", NULL,
          "this file and those that follow, and nothing else\nof the machine" },
        { OPT_ROOT, 0, "root", BLKUP_CLI_ARG, "DIR", NULL, "mount each image at DIR/NAME" },
        { OPT_NO_MOUNT, 0, "no-mount", BLKUP_CLI_NO_ARG, NULL, NULL, "mount nothing" },
        { OPT_FINISH, 0, "finish", BLKUP_CLI_ARG, "WHEN", "auto always never",
          "ext4 tables that mkfs left open: auto (usual; when\nit takes less than 50 ms), always, never" },
        { OPT_FSCK, 0, "fsck", BLKUP_CLI_ARG, "WHEN", "auto skip",
          "auto (usual; as fstab's sixth field says), skip" },
        { OPT_WAIT, 0, "wait", BLKUP_CLI_ARG, "SECONDS", NULL, "for devices that are not there yet" },
        { OPT_TIMEOUT, 0, "timeout", BLKUP_CLI_ARG, "SECONDS", NULL,
          "give up a device that does not answer (usual: 10)" },
        { OPT_JOBS, 'j', "jobs", BLKUP_CLI_ARG, "N", NULL, "at most N at a time (usual: 64)" },
        { OPT_JSON, 0, "json", BLKUP_CLI_NO_ARG, NULL, NULL, "JSON instead of the table" },
        { OPT_TIMELINE, 0, "timeline", BLKUP_CLI_ARG, "FILE", NULL, BLKUP_CLI_TIMELINE_HELP },
        { OPT_HIBERNATION, 0, "ignore-hibernation", BLKUP_CLI_NO_ARG, NULL, NULL,
          "write although a hibernation image is attached" },
        { OPT_NO_CAGE, 0, "no-cage", BLKUP_CLI_NO_ARG, NULL, NULL, "look at devices in this process" },
        BLKUP_CLI_STANDARD_OPTIONS,
};

struct request {
        struct blkup_coldplug_settings s;
        const char *fstab_path, *timeline, *root;
        struct blkup_coldplug_place *places; /* owned, and their sources */
        const char **only, **images;         /* owned */
        size_t room;                         /* of each of the three */
        bool json, has_finish, has_fsck, has_fstab_path;
};

static int out_of_memory(void)
{
        blkup_cli_error("coldplug", "out of memory");
        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
}

static int parse_seconds(const struct blkup_cli_command *self, const char *what, const char *value,
                         uint64_t *ret)
{
        char *end;
        double v;

        errno = 0;
        v = strtod(value, &end);
        if (*end || end == value || errno || !(v >= 0) || v > 86400)
                return blkup_cli_usage_error(self, "%s: '%s' is no time in seconds, up to 86400", what,
                                             value);
        *ret = (uint64_t) (v * 1e9);
        return 0;
}

/* The folder is absolute and a tag may hold colons: the last ":/" parts them. */
static int add_place(const struct blkup_cli_command *self, struct request *q, const char *value)
{
        const char *at = NULL;
        char *source;

        for (const char *s = strstr(value, ":/"); s; s = strstr(s + 1, ":/"))
                at = s;
        if (!at || at == value || (value[0] != '/' && !memchr(value, '=', (size_t) (at - value))))
                return blkup_cli_usage_error(self, "--mount: '%s' is not TAG:DIR, as UUID=...:/srv", value);
        source = strndup(value, (size_t) (at - value));
        if (!source)
                return out_of_memory();
        q->places[q->s.n_places++] = (struct blkup_coldplug_place){ source, at + 1 };
        return 0;
}

static int set_option(const struct blkup_cli_command *self, struct request *q, int id, const char *value)
{
        uint64_t ns = 0;
        char *end;
        int word, code;

        switch (id) {
        case OPT_DRY_RUN:
                q->s.dry_run = true;
                break;
        case OPT_ONLY:
                q->only[q->s.n_only++] = value;
                break;
        case OPT_MOUNT:
                return add_place(self, q, value);
        case OPT_FSTAB:
                q->fstab_path = value;
                q->has_fstab_path = true;
                break;
        case OPT_IMAGE:
                q->images[q->s.n_images++] = value;
                break;
        case OPT_ROOT:
                q->root = value;
                break;
        case OPT_NO_MOUNT:
                q->s.no_mount = true;
                break;
        case OPT_FINISH:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->s.finish = word == 0   ? BLKUP_COLDPLUG_FINISH_AUTO
                              : word == 1 ? BLKUP_COLDPLUG_FINISH_ALWAYS
                                          : BLKUP_COLDPLUG_FINISH_NEVER;
                q->has_finish = true;
                break;
        case OPT_FSCK:
                word = blkup_cli_word(self, id, value);
                if (word < 0)
                        return self->usage_exit;
                q->s.no_check = word == 1;
                q->has_fsck = true;
                break;
        case OPT_WAIT:
                return parse_seconds(self, "--wait", value, &q->s.wait_ns);
        case OPT_TIMEOUT:
                code = parse_seconds(self, "--timeout", value, &ns);
                q->s.device_ns = ns > 0 ? ns : 1;
                return code;
        case OPT_JOBS:
                errno = 0;
                ns = strtoull(value, &end, 10);
                if (errno || *end || *value < '0' || *value > '9' || ns < 1 || ns > 256)
                        return blkup_cli_usage_error(self, "-j: '%s' is no number from 1 to 256", value);
                q->s.workers = (unsigned) ns;
                break;
        case OPT_JSON:
                q->json = true;
                break;
        case OPT_TIMELINE:
                if (!blkup_cli_timeline_has_suffix(value))
                        return blkup_cli_usage_error(self, "--timeline: '%s' has no known suffix; known: %s",
                                                     value, blkup_cli_timeline_suffixes);
                q->timeline = value;
                break;
        case OPT_HIBERNATION:
                q->s.ignore_hibernation = true;
                break;
        case OPT_NO_CAGE:
                q->s.no_cage = true;
                break;
        }
        return 0;
}

static int check_request(const struct blkup_cli_command *self, struct request *q, int n, char **operands)
{
        if (n > 0 && q->s.n_images == 0)
                return blkup_cli_usage_error(self, "'%s': no operands but behind --image", operands[0]);
        for (int i = 0; i < n; i++)
                q->images[q->s.n_images++] = operands[i];
        if (q->root && q->s.n_images == 0)
                return blkup_cli_usage_error(self, "--root goes with --image");
        if (q->s.n_images > 0 && (q->s.n_places > 0 || q->has_fstab_path || q->has_fsck || q->s.n_only > 0 ||
                                  q->s.wait_ns > 0))
                return blkup_cli_usage_error(
                        self, "--image goes without --mount, --fstab, --fsck, --only and --wait");
        if (!q->has_finish)
                q->s.finish = q->s.n_images > 0 ? BLKUP_COLDPLUG_FINISH_NEVER : BLKUP_COLDPLUG_FINISH_AUTO;
        /* A loop device takes root; without it the images are identified, and finished when that is asked
         * for. */
        if (q->s.n_images > 0 && q->root && !q->s.no_mount && geteuid() == 0)
                q->s.image_folder = q->root;
        return 0;
}

static int print_answer(const struct request *q, const struct blkup_coldplug_result *r)
{
        int code = blkup_cli_coldplug_exit_code(r), k;

        blkup_cli_coldplug_print_messages(r);
        k = q->json ? blkup_cli_coldplug_print_json(r, code) : blkup_cli_coldplug_print_table(r);
        if (k < 0 && !ferror(stdout)) {
                blkup_cli_error("coldplug", "cannot print: %s", strerror(-k));
                code = BLKUP_CLI_COLDPLUG_EXIT_NONE;
        }
        return blkup_cli_finish_stdout("coldplug", code, BLKUP_CLI_COLDPLUG_EXIT_NONE);
}

/* Sixty threads that each take a little: two arenas do, and large blocks go back at once. */
static void save_memory(void)
{
#ifdef M_ARENA_MAX
        (void) mallopt(M_ARENA_MAX, 2);
        (void) mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

static int bring_up(struct request *q)
{
        struct blkup_fstab *fstab = NULL;
        struct blkup_coldplug *c = NULL;
        struct blkup_error err = { 0 };
        int code = BLKUP_CLI_COLDPLUG_EXIT_NONE, r = 0;

        save_memory();
        if (q->timeline) {
                q->s.trace = blkup_trace_new(0);
                if (!q->s.trace)
                        return out_of_memory();
        }
        if (q->s.n_images == 0) {
                r = blkup_fstab_load(q->fstab_path, &fstab, &err);
                /* A machine without an fstab has places, perhaps. */
                if (r == -ENOENT && !q->has_fstab_path)
                        r = 0;
                q->s.fstab = fstab;
                for (size_t i = 0; fstab && i < fstab->n_bad; i++)
                        blkup_cli_error("coldplug", "%s: line %u: %s", q->fstab_path, fstab->bad[i].line,
                                        fstab->bad[i].why);
        }
        if (r == 0)
                r = blkup_coldplug_run(&q->s, &c, &err);
        if (r < 0)
                blkup_cli_error("coldplug", "%s", err.message);
        else
                code = print_answer(q, blkup_coldplug_result(c));
        if (r == 0 && q->timeline &&
            blkup_cli_write_timeline(q->s.trace, "blkup coldplug", q->timeline, &err) < 0) {
                blkup_cli_error("coldplug", "%s", err.message);
                code = code ? code : BLKUP_CLI_COLDPLUG_EXIT_SOME;
        }
        blkup_coldplug_unref(c);
        blkup_fstab_free(fstab);
        blkup_trace_unref(q->s.trace);
        return code;
}

/*
 * A process one of whose threads waits for a device that does not answer cannot end before that answers:
 * neither exit nor a signal helps. So the work is a child's, which tells its exit code when all has been
 * said; the parent, which is what others wait for, ends then.
 */
static int run_apart(struct request *q)
{
        int fds[2], code, status;
        unsigned char byte;
        ssize_t n;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return bring_up(q);
        (void) fflush(NULL);
        pid = fork();
        if (pid < 0) {
                (void) close(fds[0]);
                (void) close(fds[1]);
                return bring_up(q);
        }
        if (pid == 0) {
                (void) close(fds[0]);
                (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
                code = bring_up(q);
                byte = (unsigned char) code;
                (void) fflush(NULL);
                /* Who reads what we print must see its end. */
                for (int i = 0; i <= 2; i++)
                        (void) close(i);
                (void) prctl(PR_SET_PDEATHSIG, 0);
                (void) !write(fds[1], &byte, 1);
                _exit(code);
        }
        (void) close(fds[1]);
        do
                n = read(fds[0], &byte, 1);
        while (n < 0 && errno == EINTR);
        (void) close(fds[0]);
        if (n == 1)
                return byte;
        /* It died. */
        if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
                blkup_cli_error("coldplug", "ended by signal %d", WTERMSIG(status));
        return BLKUP_CLI_COLDPLUG_EXIT_NONE;
}

static int run_coldplug(const struct blkup_cli_command *self, int argc, char **argv)
{
        struct blkup_cli_parser parser;
        struct request q = { .fstab_path = "/etc/fstab", .room = (size_t) argc + 1 };
        const char *value;
        int id = 0, code = 0;

        q.places = calloc(q.room, sizeof(*q.places));
        q.only = calloc(q.room, sizeof(*q.only));
        q.images = calloc(q.room, sizeof(*q.images));
        if (!q.places || !q.only || !q.images)
                code = out_of_memory();
        blkup_cli_parser_init(&parser, self, argc, argv, false);
        while (code == 0 && (id = blkup_cli_next(&parser, &value)) > 0)
                code = set_option(self, &q, id, value);
        if (code == 0 && id < 0) {
                code = parser.exit_code;
        } else if (code == 0) {
                q.s.places = q.places;
                q.s.only = q.only;
                q.s.images = q.images;
                code = check_request(self, &q, argc - parser.first, argv + parser.first);
                if (code == 0)
                        code = run_apart(&q);
        }
        for (size_t i = 0; q.places && i < q.s.n_places; i++)
                free((char *) q.places[i].source);
        free(q.places);
        free(q.only);
        free(q.images);
        return code;
}

const struct blkup_cli_command blkup_cli_command_coldplug = {
        .name = "coldplug",
        .help = "Brings everything that is attached from identified to mounted.",
        .synopsis = "[options] [--image FILE...]",
        .called_as = "blkup-coldplug",
        .options = options,
        .n_options = BLKUP_ARRAY_SIZE(options),
        .usage_exit = BLKUP_CLI_COLDPLUG_EXIT_USAGE,
        .run = run_coldplug,
};
