/* Fills the disk. Expect: PASSED, RUNTIME_ERROR */
#include <stdio.h>
#include <string.h>
#include <signal.h>

int main(void) {
    static char block[1 << 20];
    char name[32];
    long total = 0;
    signal(SIGXFSZ, SIG_IGN);
    memset(block, 1, sizeof block);
    for (int i = 0; i < 100; i++) {
        sprintf(name, "f%d", i);
        FILE *file = fopen(name, "w");
        if (!file) break;
        for (int j = 0; j < 16; j++) total += fwrite(block, 1, sizeof block, file);
        fclose(file);
    }
    printf("%d\n", total > (80 << 20) ? 3 : 2);
}
