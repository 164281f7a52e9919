/* Writes where it must not, and makes devices, links and set-uid files. Expect: PASSED */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(void) {
    const char *paths[] = {"/x", "/usr/bin/x", "/etc/x", "/dev/x", "/lib/x", "/bin/ls", "/usr/lib/x", "/var/x"};
    int got = 0;
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
        got += open(paths[i], O_WRONLY | O_CREAT, 0600) >= 0;
    got += mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)) == 0;
    got += chroot("/tmp") == 0;
    got += setuid(0) == 0;
    got += symlink("/etc/passwd", "p") == 0 && open("p", O_RDONLY) >= 0;
    printf("%d\n", got ? got + 2 : 2);
}
