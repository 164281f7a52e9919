/* Looks for secrets of the service in its environment. Prints 2 if there is none. Expect: PASSED */
#include <stdio.h>
#include <string.h>

extern char **environ;
int main(void) {
    int got = 0;
    for (char **word = environ; *word; word++) got += strstr(*word, "SECRET") != 0 || strstr(*word, "RATCHET") != 0;
    printf("%d\n", got ? got + 2 : 2);
}
