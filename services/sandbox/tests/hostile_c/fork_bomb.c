/* Forks without end. Expect: TIME_LIMIT, RUNTIME_ERROR, MEMORY_LIMIT */
#include <unistd.h>

int main(void) {
    for (;;) fork();
}
