"""C, as gcc builds it."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="c")
HEAD = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"


def main(name: str, body: str, stdin: str, stdout: str, head: str = "") -> object:
    return stdio(name, f"{HEAD}{head}int main(void) {{ {body} return 0; }}\n", stdin, stdout)


CASES = (
    main("scanf", 'int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b);', "1 2\n", "3\n"),
    main("until the end", 'long s = 0, x; while (scanf("%ld", &x) == 1) s += x; printf("%ld\\n", s);', "1 2\n3\n", "6\n"),
    main("getchar", 'int c, n = 0; while ((c = getchar()) != EOF) n += c == \'a\'; printf("%d\\n", n);', "banana\n", "3\n"),
    main("fgets and strtok", 'char l[99]; fgets(l, 99, stdin); for (char *t = strtok(l, " \\n"); t; t = strtok(0, " \\n")) puts(t);', "a b\n", "a\nb\n"),
    main("getline", 'char *l = 0; size_t n = 0; while (getline(&l, &n, stdin) > 0) printf("%zu ", strlen(l));', "ab\nc\n", "3 2\n", "#define _GNU_SOURCE\n"),
    main("freopen of /dev/stdin", 'freopen("/dev/stdin", "r", stdin); int a; scanf("%d", &a); printf("%d\\n", a * 2);', "4\n", "8\n"),
    main("fopen of /dev/stdout", 'FILE *o = fopen("/dev/stdout", "w"); fputs("x\\n", o); fclose(o);', "", "x\n"),
    main("fread of everything", 'char *b = malloc(1 << 20); size_t n = fread(b, 1, 1 << 20, stdin); printf("%zu\\n", n);', "x" * 5000, "5000\n"),
    main("malloc and qsort", 'int n; scanf("%d", &n); int *a = malloc(n * sizeof *a); for (int i = 0; i < n; i++) scanf("%d", a + i); qsort(a, n, sizeof *a, cmp);'
         ' for (int i = 0; i < n; i++) printf("%d ", a[i]);', "3\n3 1 2\n", "1 2 3\n",
         "int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n"),
    main("large arrays", 'for (int i = 0; i < 5000000; i++) a[i] = i; printf("%d\\n", a[4999999]);', "", "4999999\n", "int a[5000000];\n"),
    main("initialised arrays", 'printf("%d %d\\n", a[0], a[4999999]);', "", "1 0\n", "int a[5000000] = {1};\n"),
    main("math", 'double x; scanf("%lf", &x); printf("%.3f %.3f\\n", sqrt(x), sin(x));', "2\n", "1.414 0.909\n", "#include <math.h>\n"),
    main("recursion", 'printf("%ld\\n", f(100000));', "", "100000\n", "long f(long n) { return n ? 1 + f(n - 1) : 0; }\n"),
    main("threads", 'pthread_t t; int x = 1; pthread_create(&t, 0, go, &x); pthread_join(t, 0); printf("%d\\n", x);', "", "2\n",
         "#include <pthread.h>\nvoid *go(void *p) { ++*(int *)p; return 0; }\n"),
    main("temporary file", 'FILE *t = tmpfile(); fputs("hello", t); rewind(t); char b[9] = {0}; fread(b, 1, 5, t); puts(b);', "", "hello\n"),
    main("setvbuf and fflush", 'setvbuf(stdout, 0, _IONBF, 0); printf("a"); fflush(stdout); printf("b\\n");', "", "ab\n"),
    main("time and rand", 'srand(time(0)); int r = rand() % 6; printf("%d\\n", r >= 0 && r < 6);', "", "1\n", "#include <time.h>\n"),
    main("fork and pipe", 'int p[2]; pipe(p); if (!fork()) { write(p[1], "k", 1); _exit(0); } char c; read(p[0], &c, 1); wait(0); printf("%c\\n", c);', "", "k\n",
         "#include <unistd.h>\n#include <sys/wait.h>\n"),
)  # fmt: skip
