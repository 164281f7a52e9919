/* Leaves processes behind that ignore signals and left its session. Expect: PASSED */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 20; i++)
        if (fork() == 0) {
            setsid();
            for (int s = 1; s < 32; s++) signal(s, SIG_IGN);
            if (fork() == 0)
                for (;;) pause();
            _exit(0);
        }
    puts("2");
}
