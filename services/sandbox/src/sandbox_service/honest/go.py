"""Go, as `go run` builds it."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="go")


def main(name: str, imports: str, body: str, stdin: str, stdout: str, head: str = "") -> object:
    listed = "\n".join(f'\t"{one}"' for one in imports.split())
    return stdio(name, f"package main\n\nimport (\n{listed}\n)\n\n{head}func main() {{\n\t{body}\n}}\n", stdin, stdout)


CASES = (
    main("Scan", "fmt", "var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b)", "1 2\n", "3\n"),
    main("Scanner", "bufio fmt os", "s := bufio.NewScanner(os.Stdin); n := 0; for s.Scan() { n += len(s.Text()) }; fmt.Println(n)", "ab\nc\n", "3\n"),
    main("Reader and Writer", "bufio fmt os", "r, w := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout); defer w.Flush(); var x int; fmt.Fscan(r, &x); fmt.Fprintln(w, x*2)", "4\n", "8\n"),
    main("ReadAll", "fmt io os", "b, _ := io.ReadAll(os.Stdin); fmt.Println(len(b))", "abc\n", "4\n"),
    main("/dev/stdin", "fmt os", 'b, _ := os.ReadFile("/dev/stdin"); fmt.Print(string(b))', "hi\n", "hi\n"),
    main("goroutines", "fmt sync", "var w sync.WaitGroup; c := make(chan int, 4); for i := 0; i < 4; i++ { w.Add(1); go func(i int) { defer w.Done(); c <- i }(i) }; w.Wait(); close(c); s := 0; for x := range c { s += x }; fmt.Println(s)", "", "6\n"),
    main("maps and sort", "fmt sort", 'm := map[string]int{"b": 1, "a": 2}; k := []string{}; for x := range m { k = append(k, x) }; sort.Strings(k); fmt.Println(k)', "", "[a b]\n"),
    main("generics", "fmt", "fmt.Println(max2(1, 2))", "", "2\n", "func max2[T int | float64](a, b T) T { if a > b { return a }; return b }\n\n"),
    main("deep recursion", "fmt", "fmt.Println(f(1000000))", "", "1000000\n", "func f(n int) int { if n == 0 { return 0 }; return 1 + f(n-1) }\n\n"),
    main("big", "fmt math/big", "fmt.Println(new(big.Int).Exp(big.NewInt(2), big.NewInt(100), nil))", "", "1267650600228229401496703205376\n"),
)  # fmt: skip
