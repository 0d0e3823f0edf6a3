/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The init of the measuring guest: loads the modules of /names the way the kernel command line says
 * (way=...), then dummy, and prints what it took on the console: one line `bench key=value ...`. Then it
 * powers off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORDS 512

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static int run(char **argv)
{
        pid_t pid = fork();
        int status = -1;

        if (pid == 0) {
                execv(argv[0], argv);
                _exit(127);
        }
        while (waitpid(pid, &status, 0) != pid)
                ;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static char *read_file(const char *path, char *buf, size_t cap)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);

        if (fd >= 0)
                close(fd);
        buf[n < 0 ? 0 : n] = '\0';
        return buf;
}

static char *option(const char *line, const char *key, char *ret, size_t cap)
{
        const char *at = strstr(line, key);
        size_t n;

        *ret = '\0';
        if (!at)
                return ret;
        at += strlen(key);
        n = strcspn(at, " \n");
        snprintf(ret, cap, "%.*s", (int) (n < cap ? n : cap - 1), at);
        return ret;
}

/* ours: the words of the command line's ours= option, parted by commas, before --files-from. */
static int load(const char *way, char *ours, char **names, int n)
{
        char *argv[MAX_WORDS + 16];
        int k = 0;

        if (strcmp(way, "ours") == 0) {
                char *state = NULL;

                argv[k++] = "/bin/blkup";
                argv[k++] = "modules";
                argv[k++] = "load";
                for (char *w = strtok_r(ours, ",", &state); w; w = strtok_r(NULL, ",", &state))
                        argv[k++] = w;
                argv[k++] = "--files-from";
                argv[k++] = "/names";
                argv[k] = NULL;
                return run(argv);
        }
        if (strcmp(way, "modprobe-a") == 0) {
                argv[k++] = "/sbin/modprobe";
                argv[k++] = "-a";
                for (int i = 0; i < n; i++)
                        argv[k++] = names[i];
                argv[k] = NULL;
                return run(argv);
        }
        if (strcmp(way, "each") == 0) {
                int code = 0;

                for (int i = 0; i < n; i++) {
                        argv[0] = "/sbin/modprobe";
                        argv[1] = names[i];
                        argv[2] = NULL;
                        code |= run(argv);
                }
                return code;
        }
        if (strcmp(way, "xargs") == 0) {
                char *x[] = { "/bin/busybox", "sh", "-c", "/bin/busybox xargs -n1 -P4 /sbin/modprobe </names",
                              NULL };

                return run(x);
        }
        return 126;
}

static int load_dummy(void)
{
        int fd = open("/dummy.ko", O_RDONLY | O_CLOEXEC);
        int r = (int) syscall(SYS_finit_module, fd, "", 0);

        r = r < 0 ? -errno : 0;
        close(fd);
        return r;
}

static int count_lines(const char *path)
{
        FILE *f = fopen(path, "r");
        int c, n = 0;

        while (f && (c = getc(f)) != EOF)
                n += c == '\n';
        if (f)
                fclose(f);
        return n;
}

/* What the disk has delivered. */
static void disk_counts(unsigned long long *ret_requests, unsigned long long *ret_kib)
{
        unsigned long long merged = 0, sectors = 0;
        char text[256];

        *ret_requests = 0;
        /* Kernel Documentation/block/stat.rst */
        (void) sscanf(read_file("/sys/block/vda/stat", text, sizeof(text)), "%llu %llu %llu", ret_requests,
                      &merged, &sectors);
        *ret_kib = sectors / 2;
}

int main(void)
{
        static char line[8192], text[16384], way[64], ours[512], disk[16], limit[64];
        char *names[MAX_WORDS], *state = NULL;
        struct rusage u;
        unsigned long long requests, kib, before, kib_before;
        double start, end;
        int n = 0, code, dummy;

        mount("proc", "/proc", "proc", 0, NULL);
        mount("sysfs", "/sys", "sysfs", 0, NULL);
        mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
        read_file("/proc/cmdline", line, sizeof(line));
        option(line, "way=", way, sizeof(way));
        option(line, "ours=", ours, sizeof(ours));
        option(line, "disk=", disk, sizeof(disk));
        read_file("/names", text, sizeof(text));
        for (char *w = strtok_r(text, "\n", &state); w && n < MAX_WORDS; w = strtok_r(NULL, "\n", &state))
                names[n++] = w;
        if (*disk) {
                /* The folder of the modules is on a disk, whose driver and file system are loaded already. */
                char *first[] = { "/sbin/modprobe", "-a", "virtio_pci", "virtio_blk", disk, NULL };
                const char *device = "/dev/vda";

                run(first);
                if (strstr(line, "delay=1")) {
                        /* Each request of the disk takes 5 ms, and any number of them at once. */
                        char *delay[] = { "/sbin/modprobe", "dm_delay", NULL };
                        char *make[] = { "/bin/busybox", "sh", "-c",
                                         "/bin/dmsetup --noudevsync --noudevrules create slow --table \"0 "
                                         "$(/bin/busybox cat "
                                         "/sys/block/vda/size) delay /dev/vda 0 5\"",
                                         NULL };

                        run(delay);
                        run(make);
                        device = "/dev/dm-0";
                }
                for (int i = 0; i < 100 && mount(device, "/lib/modules", disk, MS_RDONLY, NULL) < 0; i++)
                        usleep(20000);
        }
        if (strstr(line, "warm=1")) {
                char *all[] = {
                        "/bin/busybox", "sh", "-c",
                        "/bin/blkup modules plan --files-from /names | while read -r what path rest; do "
                        "/bin/busybox cat $path; done >/dev/null",
                        NULL
                };

                run(all);
        }
        option(line, "limit=", limit, sizeof(limit));
        if (*limit) {
                /* By the guest's own clock: a throttle of QEMU counts the host's time, in which this guest is
                 * slow. */
                char command[512];
                char *set[] = { "/bin/busybox", "sh", "-c", command, NULL };

                snprintf(command, sizeof(command),
                         "/bin/busybox mount -t cgroup2 none /sys/fs/cgroup && cd /sys/fs/cgroup && echo +io "
                         ">cgroup.subtree_control "
                         "&& /bin/busybox mkdir b && echo \"$(/bin/busybox cat /sys/block/vda/dev) %s\" "
                         ">b/io.max && "
                         "echo 1 >b/cgroup.procs && /bin/busybox grep . b/io.max",
                         limit);
                run(set);
        }
        disk_counts(&before, &kib_before);
        start = now_ms();
        code = load(way, ours, names, n);
        dummy = load_dummy();
        end = now_ms();
        disk_counts(&requests, &kib);
        getrusage(RUSAGE_CHILDREN, &u);
        printf("\nbench way=%s ms=%.1f code=%d dummy=%d modules=%d user_ms=%.1f requests=%llu kib=%llu\n",
               way, end - start, code, dummy, count_lines("/proc/modules"),
               (double) u.ru_utime.tv_sec * 1e3 + (double) u.ru_utime.tv_usec / 1e3, requests - before,
               kib - kib_before);
        if (strstr(line, "list=1"))
                puts(read_file("/proc/modules", text, sizeof(text)));
        fflush(stdout);
        sync();
        usleep(50000);
        reboot(RB_POWER_OFF);
        for (;;)
                pause();
}
