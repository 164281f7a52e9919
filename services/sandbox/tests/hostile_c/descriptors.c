/* Looks for descriptors that it was not given, and writes to them. Prints 2 if there are none. Expect: PASSED */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int got = 0;
    for (int i = 3; i < 4096; i++) got += write(i, "[]\n", 3) > 0 || dup(i) >= 0;
    printf("%d\n", got ? got + 2 : 2);
}
