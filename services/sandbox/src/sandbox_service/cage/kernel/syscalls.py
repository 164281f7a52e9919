"""Numbers of system calls, of x86-64 (linux/arch/x86/entry/syscalls/syscall_64.tbl) and of ARM64, which has those of
linux/include/uapi/asm-generic/unistd.h. From 424 on they're the same everywhere."""

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
}  # fmt: skip


def numbers_of(machine: str) -> dict[str, int]:
    """Those of the calls that it has, by name. Raises ValueError for a machine that isn't known."""
    place = _MACHINES.index(machine)
    return {name: both[place] for name, both in NUMBERS.items() if both[place] != NONE}
