/* Reads what belongs to the machine, not to the lane. Prints 2 if nothing could be read. Expect: PASSED */
#include <fcntl.h>
#include <stdio.h>

int main(void) {
    const char *paths[] = {"/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/1/environ", "/proc/self/status", "/proc",
                           "/sys", "/root", "/home", "/var", "/dev/mem", "/dev/kmsg", "/dev/sda", "/run", "/",
                           "/tmp/../etc/passwd", "/usr/share/doc", "/opt", "/srv"};
    int got = 0;
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
        if (open(paths[i], O_RDONLY) >= 0) {
            got++;
            fprintf(stderr, "read %s\n", paths[i]);
        }
    printf("%d\n", got ? got + 2 : 2);
}
