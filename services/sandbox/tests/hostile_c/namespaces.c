/* New namespaces, mounts, tracing, by the bare system calls. Prints 2 if all were refused. Expect: PASSED */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    int got = 0;
    int flags[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, 0x02000000};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        got += unshare(flags[i]) == 0;
        long child = syscall(SYS_clone, flags[i] | 17, 0, 0, 0, 0);
        if (child == 0) _exit(0);
        got += child > 0;
    }
    got += mount("none", "/tmp", "tmpfs", 0, "") == 0;
    got += ptrace(PTRACE_ATTACH, 1, 0, 0) == 0;
    got += syscall(425, 8, 0) >= 0;          /* io_uring_setup */
    got += syscall(321, 0, 0, 0) >= 0;       /* bpf */
    got += syscall(250, 0, -3, 1) >= 0;      /* keyctl */
    got += syscall(319, "x", 0) >= 0;        /* memfd_create */
    got += syscall(29, 1, 4096, 01600) >= 0; /* shmget */
    printf("%d\n", got ? got + 2 : 2);
}
