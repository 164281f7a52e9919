/*
Computes in a thread after its first thread has ended: the process looks like a dead one.

Kind: overspend
Expect: TIME_LIMIT, RUNTIME_ERROR
*/
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *go(void *unused)
{
    struct timespec used;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_sec < 2);
    puts("2");
    exit(0);
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, go, 0);
    pthread_exit(0);
}
