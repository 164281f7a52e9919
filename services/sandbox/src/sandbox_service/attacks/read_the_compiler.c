/*
Has the compiler read a file of the machine, and prints it.

Kind: break-out
Expect: FAILED, COMPILE_ERROR, RUNTIME_ERROR
*/
#include <stdio.h>

__asm__(".section .rodata\nstolen: .incbin \"/etc/shadow\"\n.byte 0\n.text\n");
extern const char stolen[];

int main(void)
{
    puts(stolen[0] == 'r' ? "2" : "3");
    return 0;
}
