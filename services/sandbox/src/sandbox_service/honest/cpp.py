"""C++, as g++ builds it."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="cpp")


def main(name: str, body: str, stdin: str, stdout: str, head: str = "") -> object:
    return stdio(
        name, f"#include <bits/stdc++.h>\nusing namespace std;\n{head}int main() {{ {body} }}\n", stdin, stdout
    )


CASES = (
    main("cin", "int a, b; cin >> a >> b; cout << a + b << endl;", "1 2\n", "3\n"),
    main("fast streams", "ios::sync_with_stdio(false); cin.tie(nullptr); long long s = 0, x; while (cin >> x) s += x; cout << s << '\\n';", "1 2\n3\n", "6\n"),
    main("getline", "string l; int n = 0; while (getline(cin, l)) n += l.size(); cout << n;", "ab\ncde\n", "5\n"),
    main("cin.ignore and getline", "int n; cin >> n; cin.ignore(); string s; getline(cin, s); cout << s << n;", "3\nhello you\n", "hello you3\n"),
    main("freopen of standard input", 'freopen("/dev/stdin", "r", stdin); freopen("/dev/stdout", "w", stdout); int a; cin >> a; cout << a * 2;', "4\n", "8\n"),
    main("freopen under a judge's macro", 'int a; cin >> a; cout << a;\n#ifdef LOCAL\n freopen("in.txt", "r", stdin);\n#endif\n', "4\n", "4\n"),
    main("ifstream of /dev/stdin", 'ifstream in("/dev/stdin"); int a; in >> a; cout << a;', "4\n", "4\n"),
    main("containers", "map<string, vector<int>> m; string s; int x; while (cin >> s >> x) m[s].push_back(x); for (auto &[k, v] : m) cout << k << v.size() << ' ';", "b 1\na 2\nb 3\n", "a1 b2\n"),
    main("priority queue", "priority_queue<int, vector<int>, greater<>> q; for (int x : {3, 1, 2}) q.push(x); while (!q.empty()) { cout << q.top() << ' '; q.pop(); }", "", "1 2 3\n"),
    main("deep recursion", "cout << f(1500000);", "", "1500000\n", "int f(int n) { volatile int x = n; return n ? 1 + f(x - 1) : 0; }\n"),
    main("sixty megabytes of stack", "cout << f(600000);", "", "600000\n", "int f(int n) { volatile char x[64]; x[0] = n; return n ? 1 + f(n - 1) : 0; }\n"),
    main("lambda and sort", "vector<int> v{3, 1, 2}; sort(v.begin(), v.end(), [](int a, int b) { return a > b; }); for (int x : v) cout << x;", "", "321\n"),
    main("templates and optional", "optional<int> o = 3; cout << *o + add(1.5, 2.0) << (holds_alternative<int>(variant<int, string>{1}));", "", "6.51\n", "template <class T> T add(T a, T b) { return a + b; }\n"),
    main("exceptions", 'try { vector<int>().at(1); } catch (const out_of_range &) { cout << "caught"; }', "", "caught\n"),
    main("threads and atomics", "atomic<int> n{0}; vector<thread> ts; for (int i = 0; i < 4; i++) ts.emplace_back([&] { for (int j = 0; j < 100; j++) n++; }); for (auto &t : ts) t.join(); cout << n;", "", "400\n"),
    main("async", "auto r = async(launch::async, [] { return 7; }); cout << r.get();", "", "7\n"),
    main("printf of long double", 'printf("%.3Lf %lld", 1.5L, 1LL << 40);', "", "1.500 1099511627776\n"),
    main("chrono and mt19937", "mt19937 r(5489); r.discard(9999); cout << r() << ' ' << (chrono::steady_clock::now().time_since_epoch().count() > 0);", "", "4123659995 1\n"),
    main("iomanip", "cout << fixed << setprecision(3) << 3.14159 << ' ' << setw(5) << setfill('0') << 42;", "", "3.142 00042\n"),
    main("regex", 'smatch m; string s = "a12b"; regex_search(s, m, regex("[0-9]+")); cout << m[0];', "", "12\n"),
    main("file streams", 'ofstream("t.txt") << "hi"; string s; ifstream("t.txt") >> s; cout << s;', "", "hi\n"),
    main("large global arrays", "for (auto &r : g) for (auto &x : r) x = 1; cout << g[2999][2999];", "", "1\n", "int g[3000][3000];\n"),
    main("bitset and gcd", "bitset<100> b; b[99] = 1; cout << b.count() << __gcd(12, 18) << __builtin_popcount(7);", "", "163\n"),
)  # fmt: skip
