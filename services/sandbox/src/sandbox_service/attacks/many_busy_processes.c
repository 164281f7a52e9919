/*
Keeps the processors busy with as many processes as it gets, each in a session of its own.

Kind: overspend
Expect: TIME_LIMIT, RUNTIME_ERROR, MEMORY_LIMIT
*/
#include <unistd.h>

int main(void)
{
    for (int i = 0; i < 240; i++)
        if (fork() == 0) {
            setsid();
            for (;;)
                ;
        }
    for (;;)
        ;
}
