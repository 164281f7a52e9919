/* Many processes, each within the limit, all together far above it. Expect: MEMORY_LIMIT */
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 30; i++)
        if (fork() == 0) {
            volatile char *block = malloc(40 << 20);
            for (int j = 0; j < 40 << 20; j += 4096) block[j] = 1;
            for (;;) pause();
        }
    sleep(1);
    for (;;) pause();
}
