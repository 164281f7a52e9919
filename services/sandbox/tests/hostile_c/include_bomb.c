/* Has the compiler work without end. Expect: COMPILE_ERROR */
#define A(x) x x x x x x x x x x x x x x x x
#define B(x) A(A(A(A(x))))
int f[] = {B(B(B(1,)))};
int main(void) { return 0; }
