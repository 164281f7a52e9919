"""Java, as javac and java run it."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="java")


def main(name: str, body: str, stdin: str, stdout: str, more: str = "") -> object:
    head = "import java.io.*;\nimport java.util.*;\nimport java.util.stream.*;\n\n"
    return stdio(
        name,
        f"{head}public class Main {{\n{more}\npublic static void main(String[] args) throws Exception {{ {body} }}\n}}\n",
        stdin,
        stdout,
    )


CASES = (
    main("Scanner", "Scanner s = new Scanner(System.in); System.out.println(s.nextInt() + s.nextInt());", "1 2\n", "3\n"),
    main("BufferedReader", "BufferedReader r = new BufferedReader(new InputStreamReader(System.in)); StringTokenizer t = new StringTokenizer(r.readLine()); int s = 0;"
         " while (t.hasMoreTokens()) s += Integer.parseInt(t.nextToken()); System.out.println(s);", "1 2 3\n", "6\n"),
    main("StreamTokenizer", "StreamTokenizer t = new StreamTokenizer(new BufferedInputStream(System.in)); t.nextToken(); System.out.println((int) t.nval);", "42\n", "42\n"),
    main("DataInputStream", "byte[] b = new DataInputStream(System.in).readAllBytes(); System.out.println(b.length);", "abc\n", "4\n"),
    main("PrintWriter", "PrintWriter w = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out))); w.println(5); w.flush();", "", "5\n"),
    main("/dev/stdin", 'System.out.println(new BufferedReader(new FileReader("/dev/stdin")).readLine());', "hi\n", "hi\n"),
    main("collections and streams", "Map<Integer, List<Integer>> m = IntStream.range(0, 5).boxed().collect(Collectors.groupingBy(i -> i % 2)); System.out.println(m);", "", "{0=[0, 2, 4], 1=[1, 3]}\n"),
    main("records and switch", "Object o = new P(3); System.out.println(switch (((P) o).x()) { case 3 -> \"three\"; default -> \"other\"; });", "", "three\n", "record P(int x) {}"),
    main("thread with a big stack", "Thread t = new Thread(null, () -> System.out.println(f(50000)), \"m\", 1 << 27); t.start(); t.join();", "", "50000\n", "static int f(int n) { return n == 0 ? 0 : 1 + f(n - 1); }"),
    main("BigInteger", "System.out.println(new java.math.BigInteger(\"2\").pow(100));", "", "1267650600228229401496703205376\n"),
    main("exit status zero", "System.out.println(1); System.exit(0);", "", "1\n"),
    main("executor", "var e = java.util.concurrent.Executors.newFixedThreadPool(2); System.out.println(e.submit(() -> 7).get()); e.shutdown();", "", "7\n"),
    stdio("public class in a comment", "/*\npublic class Wrong\n*/\n// public class Other\npublic class Main { public static void main(String[] a) { System.out.println(1); } }\n", "", "1\n"),
    stdio("no modifier", "class Main { public static void main(String[] a) { System.out.println(2); } }\n", "", "2\n"),
    stdio("helper classes", "import java.util.*;\nclass Node { int v; Node(int v) { this.v = v; } }\npublic class Main {\n    interface Op { int go(int x); }\n    public static void main(String[] a) {\n"
          "        Op twice = x -> x * 2;\n        System.out.println(twice.go(new Node(4).v));\n    }\n}\n", "", "8\n"),
    stdio("empty lines first", "\n" * 300 + "public class Main { public static void main(String[] a) { System.out.println(3); } }\n", "", "3\n"),
)  # fmt: skip
