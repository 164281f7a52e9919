/* Signals to all that it can see: to itself, and to nobody else. Expect: RUNTIME_ERROR, PASSED */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    kill(1, SIGKILL);
    kill(1, SIGSTOP);
    kill(1, SIGTERM);
    kill(-1, SIGKILL);
    kill(0, SIGKILL);
    puts("2");
}
