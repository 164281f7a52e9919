/* Opens every kind of socket that leads out of the lane. Prints how many it got. Expect: PASSED */
#include <stdio.h>
#include <sys/socket.h>

int main(void) {
    int got = 0;
    for (int family = 2; family < 46; family++)
        for (int kind = 1; kind < 6; kind++) got += socket(family, kind, 0) >= 0;
    printf("%d\n", got ? got : 2);
}
