/* Has the compiler read a file of the machine. Expect: COMPILE_ERROR */
#include "/etc/passwd"
int main(void) { return 0; }
