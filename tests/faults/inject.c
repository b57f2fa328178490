/* Runs a command and spoils one of its calls to the system, to see whether it loses anything.
 *
 *   inject FAULT N REPORT COMMAND…
 *
 * FAULT is ENOSPC or EIO (the call fails), EINTR (it asks to be repeated), short (it moves half of the bytes), kill (the
 * process ends before the call) or none. Calls count from 1 if they touch a file in the folder that the command is
 * started in, or write to stdout, and if the fault can befall them; what the loader and the language's runtime do
 * elsewhere does not count. REPORT gets one line: how many calls there were, and which one was spoilt.
 *
 * The calls are caught where they enter the kernel, so it does not matter which library makes them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a call may suffer. */
enum { FAILS = 1, FULL = 2, REPEATS = 4, SHORT = 8 };
/* Where the name of its file is: behind a descriptor, or in a text. */
enum { DESCRIPTOR, NAME_0, NAME_1, NAME_3, AT_NAME };

struct call {
    long number;
    const char *name;
    int suffers;
    int where;
};

static const struct call CALLS[] = {
    {SYS_openat, "open", FAILS | REPEATS, NAME_1},
    {SYS_open, "open", FAILS | REPEATS, NAME_0},
    {SYS_read, "read", FAILS | REPEATS | SHORT, DESCRIPTOR},
    {SYS_pread64, "read", FAILS | REPEATS | SHORT, DESCRIPTOR},
    {SYS_readv, "read", FAILS | REPEATS, DESCRIPTOR},
    {SYS_preadv, "read", FAILS | REPEATS, DESCRIPTOR},
    {SYS_write, "write", FAILS | FULL | REPEATS | SHORT, DESCRIPTOR},
    {SYS_pwrite64, "write", FAILS | FULL | REPEATS | SHORT, DESCRIPTOR},
    {SYS_writev, "write", FAILS | FULL | REPEATS, DESCRIPTOR},
    {SYS_pwritev, "write", FAILS | FULL | REPEATS, DESCRIPTOR},
    {SYS_copy_file_range, "copy", FAILS | FULL, DESCRIPTOR},
    {SYS_sendfile, "copy", FAILS | FULL, DESCRIPTOR},
    {SYS_fsync, "sync", FAILS | FULL | REPEATS, DESCRIPTOR},
    {SYS_fdatasync, "sync", FAILS | FULL | REPEATS, DESCRIPTOR},
    {SYS_ftruncate, "truncate", FAILS | FULL, DESCRIPTOR},
    {SYS_fallocate, "allocate", FAILS | FULL, DESCRIPTOR},
    {SYS_lseek, "seek", FAILS, DESCRIPTOR},
    {SYS_mmap, "map", FAILS, DESCRIPTOR},
    {SYS_flock, "lock", FAILS, DESCRIPTOR},
    {SYS_getdents64, "list", FAILS, DESCRIPTOR},
    {SYS_fstat, "stat", FAILS, DESCRIPTOR},
    {SYS_stat, "stat", FAILS, NAME_0},
    {SYS_lstat, "stat", FAILS, NAME_0},
    {SYS_newfstatat, "stat", FAILS, AT_NAME},
    {SYS_statx, "stat", FAILS, AT_NAME},
    {SYS_link, "link", FAILS | FULL, NAME_1},
    {SYS_linkat, "link", FAILS | FULL, NAME_3},
    {SYS_rename, "rename", FAILS | FULL, NAME_0},
    {SYS_renameat, "rename", FAILS | FULL, NAME_1},
    {SYS_renameat2, "rename", FAILS | FULL, NAME_1},
    {SYS_mkdir, "make folder", FAILS | FULL, NAME_0},
    {SYS_mkdirat, "make folder", FAILS | FULL, NAME_1},
    {SYS_unlink, "remove", FAILS, NAME_0},
    {SYS_unlinkat, "remove", FAILS, NAME_1},
};
#define COUNT (sizeof CALLS / sizeof *CALLS)

static void die(const char *what) {
    perror(what);
    exit(125);
}

static void trace_and_run(char **command) {
    struct sock_filter program[2 * COUNT + 3];
    size_t length = 0;
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT; i++) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].number, 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {(unsigned short)length, program};
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) die("ptrace");
    /* The parent sets its options before the filter sends it anything. */
    raise(SIGSTOP);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) die("seccomp");
    execvp(command[0], command);
    die(command[0]);
}

/* The text at an address of another process; empty where there is none. */
static void text_at(pid_t process, unsigned long long address, char *text, size_t size) {
    size_t done = 0;
    while (done + 1 < size) {
        /* Not over the end of a page, behind which there may be nothing. */
        size_t part = 256 - (address + done) % 256;
        if (part > size - 1 - done) part = size - 1 - done;
        struct iovec here = {text + done, part}, there = {(void *)(address + done), part};
        ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
        if (got <= 0) break;
        if (memchr(text + done, 0, (size_t)got)) return;
        done += (size_t)got;
    }
    text[done] = 0;
}

static void behind_descriptor(pid_t process, int descriptor, char *text, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", process, descriptor);
    ssize_t got = readlink(link, text, size - 1);
    text[got < 0 ? 0 : got] = 0;
}

/* The file that a call is about. */
static void file_of(pid_t process, const struct call *call, const struct user_regs_struct *regs, char *text, size_t size) {
    unsigned long long names[] = {0, regs->rdi, regs->rsi, regs->r10, regs->rsi};
    text[0] = 0;
    if (call->where != DESCRIPTOR) text_at(process, names[call->where], text, size);
    int descriptor = (int)(call->number == SYS_mmap ? regs->r8 : regs->rdi);
    if (call->where == DESCRIPTOR || (call->where == AT_NAME && !text[0])) behind_descriptor(process, descriptor, text, size);
}

/* Whether it lies in the folder; then its name there. */
static const char *inside(const char *folder, const char *file) {
    size_t length = strlen(folder);
    if (!file[0]) return NULL;
    if (file[0] != '/') return strchr(file, ':') ? NULL : file; /* pipe:[17] is no file */
    if (strncmp(file, folder, length)) return NULL;
    if (!file[length]) return ".";
    return file[length] == '/' ? file + length + 1 : NULL;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fputs("usage: inject FAULT N REPORT COMMAND…\n", stderr);
        return 125;
    }
    const char *fault = argv[1];
    long target = atol(argv[2]), seen = 0;
    static const struct { const char *name; int suffers, error; } FAULTS[] = {
        {"none", ~0, 0}, {"kill", ~0, 0}, {"EIO", FAILS, EIO}, {"ENOSPC", FULL, ENOSPC}, {"EINTR", REPEATS, EINTR}, {"short", SHORT, 0},
    };
    if (!strcmp(fault, "none")) target = 0;
    size_t kind = 0;
    while (kind < sizeof FAULTS / sizeof *FAULTS && strcmp(FAULTS[kind].name, fault)) kind++;
    if (kind == sizeof FAULTS / sizeof *FAULTS) {
        fprintf(stderr, "unknown fault %s\n", fault);
        return 125;
    }
    char folder[PATH_MAX], file[PATH_MAX], spoilt[PATH_MAX + 64] = "-";
    if (!getcwd(folder, sizeof folder)) die("getcwd");
    pid_t child = fork();
    if (child < 0) die("fork");
    if (!child) trace_and_run(argv + 4);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) die("the command did not start");
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, 0, options)) die("ptrace options");
    ptrace(PTRACE_CONT, child, 0, 0);
    int end = 125;
    for (;;) {
        pid_t who = waitpid(-1, &status, __WALL);
        if (who < 0) break;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (who == child) end = status;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_SECCOMP) {
            struct user_regs_struct regs;
            const struct call *call = NULL;
            if (!ptrace(PTRACE_GETREGS, who, 0, &regs))
                for (size_t i = 0; i < COUNT && !call; i++)
                    if ((long)regs.orig_rax == CALLS[i].number) call = &CALLS[i];
            int counts = call && (call->suffers & FAULTS[kind].suffers);
            if (counts && FAULTS[kind].suffers == SHORT && regs.rdx < 2) counts = 0;
            if (counts) {
                file_of(who, call, &regs, file, sizeof file);
                int out = call->where == DESCRIPTOR && call->suffers & FULL && regs.rdi == 1;
                const char *name = out ? "stdout" : inside(folder, file);
                if (name && ++seen == target) {
                    snprintf(spoilt, sizeof spoilt, "%s %s", call->name, name);
                    if (!strcmp(fault, "kill")) kill(child, SIGKILL);
                    else if (!strcmp(fault, "short")) regs.rdx /= 2;
                    else {
                        /* The kernel leaves out a call without a number, and hands over this result. */
                        regs.orig_rax = (unsigned long long)-1;
                        regs.rax = (unsigned long long)-FAULTS[kind].error;
                    }
                    ptrace(PTRACE_SETREGS, who, 0, &regs);
                }
            }
            signal = 0;
        } else if (event || signal == SIGSTOP) signal = 0; /* a new thread, or the first stop of one */
        ptrace(PTRACE_CONT, who, 0, signal);
    }
    FILE *report = fopen(argv[3], "w");
    if (!report || fprintf(report, "%ld %s\n", seen, spoilt) < 0 || fclose(report)) die(argv[3]);
    if (WIFSIGNALED(end)) {
        signal(WTERMSIG(end), SIG_DFL);
        raise(WTERMSIG(end));
    }
    return WIFEXITED(end) ? WEXITSTATUS(end) : 125;
}
