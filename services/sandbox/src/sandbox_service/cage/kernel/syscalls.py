"""Numbers of system calls, of x86-64 (linux/arch/x86/entry/syscalls/syscall_64.tbl) and of ARM64, which has those of
linux/include/uapi/asm-generic/unistd.h. From 424 on they're the same everywhere.

All that Linux had up to 6.16 were looked at. What isn't here no program needs: it's refused as what the kernel lacks.
"""

NONE = -1  # the machine has no such call
_MACHINES = ("x86_64", "aarch64")

NUMBERS = {
    # those whose arguments decide
    "mmap": (9, 222), "prctl": (157, 167), "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129),
    "tgkill": (234, 131), "prlimit64": (302, 261), "ioctl": (16, 29), "fcntl": (72, 25), "setsockopt": (54, 208),
    # processes and other programs
    "fork": (57, NONE), "vfork": (58, NONE), "execve": (59, 221), "execveat": (322, 281), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "setpriority": (141, 140),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "personality": (135, 92),
    # the network
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "bind": (49, 200), "listen": (50, 201),
    "accept4": (288, 242),
    # mounts, namespaces, the kernel itself
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    "open_by_handle_at": (304, 265), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "syslog": (103, 116), "fanotify_init": (300, 262), "seccomp": (317, 277),
    # what would outlive the program or its memory limit
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "io_setup": (206, 0), "inotify_init": (253, NONE), "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27), "fanotify_mark": (301, 263), "cachestat": (451, 451),
    # what reaches others where files are shared
    "flock": (73, 32), "sync": (162, 81), "syncfs": (306, 267), "chmod": (90, NONE), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, NONE), "fchown": (93, 55), "lchown": (94, NONE),
    "fchownat": (260, 54), "utime": (132, NONE), "utimes": (235, NONE), "futimesat": (261, NONE),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "file_setattr": (469, 469),
    # what programs do
    "read": (0, 63), "write": (1, 64), "open": (2, NONE), "close": (3, 57), "stat": (4, NONE), "fstat": (5, 80),
    "lstat": (6, NONE), "poll": (7, NONE), "lseek": (8, 62), "mprotect": (10, 226), "munmap": (11, 215),
    "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "access": (21, NONE),
    "pipe": (22, NONE), "select": (23, NONE), "sched_yield": (24, 124), "mremap": (25, 216), "msync": (26, 227),
    "mincore": (27, 232), "madvise": (28, 233), "dup": (32, 23), "dup2": (33, NONE), "pause": (34, NONE),
    "nanosleep": (35, 101), "getitimer": (36, 102), "alarm": (37, NONE), "setitimer": (38, 103), "getpid": (39, 172),
    "sendfile": (40, 71), "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212),
    "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205), "socketpair": (53, 199),
    "getsockopt": (55, 209), "exit": (60, 93), "wait4": (61, 260), "uname": (63, 160), "fsync": (74, 82),
    "fdatasync": (75, 83), "truncate": (76, 45), "ftruncate": (77, 46), "getdents": (78, NONE), "getcwd": (79, 17),
    "chdir": (80, 49), "fchdir": (81, 50), "rename": (82, NONE), "mkdir": (83, NONE), "rmdir": (84, NONE),
    "creat": (85, NONE), "link": (86, NONE), "unlink": (87, NONE), "symlink": (88, NONE), "readlink": (89, NONE),
    "umask": (95, 166), "gettimeofday": (96, 169), "getrlimit": (97, 163), "getrusage": (98, 165),
    "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176), "setuid": (105, 146),
    "setgid": (106, 144), "geteuid": (107, 175), "getegid": (108, 177), "setpgid": (109, 154), "getppid": (110, 173),
    "getpgrp": (111, NONE), "setsid": (112, 157), "setreuid": (113, 145), "setregid": (114, 143),
    "getgroups": (115, 158), "setgroups": (116, 159), "setresuid": (117, 147), "getresuid": (118, 148),
    "setresgid": (119, 149), "getresgid": (120, 150), "getpgid": (121, 155), "setfsuid": (122, 151),
    "setfsgid": (123, 152), "getsid": (124, 156), "capget": (125, 90), "capset": (126, 91),
    "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132), "mknod": (133, NONE), "statfs": (137, 43), "fstatfs": (138, 44),
    "getpriority": (140, 141), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "sched_rr_get_interval": (148, 127),
    "mlock": (149, 228), "munlock": (150, 229), "mlockall": (151, 230), "munlockall": (152, 231),
    "arch_prctl": (158, NONE), "setrlimit": (160, 164), "gettid": (186, 178), "readahead": (187, 213),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11),
    "llistxattr": (195, 12), "flistxattr": (196, 13), "time": (201, NONE), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "epoll_create": (213, NONE), "getdents64": (217, 61),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "fadvise64": (221, 223), "timer_create": (222, 107),
    "timer_settime": (223, 110), "timer_gettime": (224, 108), "timer_getoverrun": (225, 109),
    "timer_delete": (226, 111), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "exit_group": (231, 94), "epoll_wait": (232, NONE), "epoll_ctl": (233, 21),
    "mbind": (237, 235), "set_mempolicy": (238, 237), "get_mempolicy": (239, 236), "waitid": (247, 95),
    "openat": (257, 56), "mkdirat": (258, 34), "mknodat": (259, 33), "newfstatat": (262, 79), "unlinkat": (263, 35),
    "renameat": (264, 38), "linkat": (265, 37), "symlinkat": (266, 36), "readlinkat": (267, 78),
    "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73), "set_robust_list": (273, 99),
    "splice": (275, 76), "tee": (276, 77), "sync_file_range": (277, 84), "epoll_pwait": (281, 22),
    "signalfd": (282, NONE), "timerfd_create": (283, 85), "eventfd": (284, NONE), "fallocate": (285, 47),
    "timerfd_settime": (286, 86), "timerfd_gettime": (287, 87), "signalfd4": (289, 74), "eventfd2": (290, 19),
    "epoll_create1": (291, 20), "dup3": (292, 24), "pipe2": (293, 59), "preadv": (295, 69), "pwritev": (296, 70),
    "recvmmsg": (299, 243), "sendmmsg": (307, 269), "getcpu": (309, 168), "sched_getattr": (315, 275),
    "renameat2": (316, 276), "getrandom": (318, 278), "membarrier": (324, 283), "mlock2": (325, 284),
    "copy_file_range": (326, 285), "preadv2": (327, 286), "pwritev2": (328, 287), "pkey_mprotect": (329, 288),
    "pkey_alloc": (330, 289), "pkey_free": (331, 290), "statx": (332, 291), "rseq": (334, 293),
    "close_range": (436, 436), "openat2": (437, 437), "faccessat2": (439, 439), "epoll_pwait2": (441, 441),
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
    "futex_waitv": (449, 449),
}  # fmt: skip


def numbers_of(machine: str) -> dict[str, int]:
    """Those of the calls that it has, by name. Raises ValueError for a machine that isn't known."""
    place = _MACHINES.index(machine)
    return {name: both[place] for name, both in NUMBERS.items() if both[place] != NONE}
