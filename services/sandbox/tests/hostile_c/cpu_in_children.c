/* Computes in children, and forgets them. Expect: TIME_LIMIT */
#include <signal.h>
#include <unistd.h>

int main(void) {
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 4; i++)
        if (fork() == 0)
            for (;;) {}
    for (;;) pause();
}
