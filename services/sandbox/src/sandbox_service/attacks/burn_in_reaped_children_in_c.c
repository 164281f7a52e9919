/*
Computes in children that live for less than a look and are reaped by the kernel, which forgets their time.

Kind: overspend
Expect: TIME_LIMIT
*/
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    int ends[2];
    char c;
    signal(SIGCHLD, SIG_IGN);
    if (pipe(ends))
        return 1;
    for (int i = 0; i < 160; i++) {
        if (fork() == 0) {
            struct timespec used;
            do
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
            while (used.tv_nsec < 16000000);
            write(ends[1], "x", 1);
            _exit(0);
        }
        read(ends[0], &c, 1);
    }
    puts("2");
    return 0;
}
