"""JavaScript, as node runs it."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="javascript")
CASES = (
    stdio("readFileSync of 0", "const l = require('fs').readFileSync(0, 'utf8').split('\\n'); console.log(l[0].split(' ').map(Number).reduce((a, b) => a + b));\n", "1 2\n", "3\n"),
    stdio("readFileSync of /dev/stdin", "const d = require('fs').readFileSync('/dev/stdin').toString().trim(); console.log(d.length);\n", "hello\n", "5\n"),
    stdio("readline interface", "const r = require('readline').createInterface({ input: process.stdin }); let s = 0; r.on('line', l => s += +l); r.on('close', () => console.log(s));\n", "1\n2\n", "3\n"),
    stdio("readline asynchronous", "(async () => { const r = require('readline').createInterface({ input: process.stdin }); const ls = []; for await (const l of r) ls.push(l); console.log(ls.join('-')); })();\n", "a\nb\n", "a-b\n"),
    stdio("stdin events", "let d = ''; process.stdin.setEncoding('utf8'); process.stdin.on('data', c => d += c); process.stdin.on('end', () => console.log(d.trim().toUpperCase()));\n", "abc\n", "ABC\n"),
    stdio("stdin resumed", "process.stdin.resume(); process.stdin.setEncoding('ascii'); let s = ''; process.stdin.on('data', x => { s += x; }); process.stdin.on('end', () => main(s));\nfunction main(s) { console.log(s.split('\\n').length); }\n", "a\nb\n", "3\n"),
    stdio("stdin iterated", "(async () => { let s = ''; for await (const c of process.stdin) s += c; console.log(s.length); })();\n", "abcd", "4\n"),
    stdio("process.stdout.write", "process.stdout.write('a'); process.stdout.write('b\\n');\n", "", "ab\n"),
    stdio("writeFileSync to 1", "require('fs').writeFileSync(1, 'x\\n');\n", "", "x\n"),
    stdio("writeFileSync to /dev/stdout", "require('fs').writeFileSync('/dev/stdout', 'x\\n');\n", "", "x\n"),
    stdio("BigInt", "console.log((2n ** 100n).toString());\n", "", "1267650600228229401496703205376\n"),
    stdio("promises and timers", "const s = ms => new Promise(r => setTimeout(r, ms)); (async () => { await s(20); console.log('woke'); })();\n", "", "woke\n"),
    stdio("classes and maps", "class A { #x = 1; get x() { return this.#x; } } const m = new Map([[1, 'a']]); console.log(new A().x, m.get(1), [...new Set([1, 1])].length);\n", "", "1 a 1\n"),
    stdio("generators and destructuring", "function* g() { yield* [1, 2]; } const [a, ...b] = g(); console.log(a, b.length, { ...{ x: 1 } }.x);\n", "", "1 1 1\n"),
    stdio("recursion", "const f = n => n ? 1 + f(n - 1) : 0; console.log(f(5000));\n", "", "5000\n"),
    stdio("exit", "console.log('a'); process.exit(0);\n", "", "a\n"),
    stdio("a lot of output", "const o = []; for (let i = 0; i < 5000; i++) o.push(i); console.log(o.join('\\n'));\n", "", "".join(f"{i}\n" for i in range(5000))),
    stdio("files", "const fs = require('fs'); fs.writeFileSync('t', 'hi'); console.log(fs.readFileSync('t', 'utf8'), require('os').EOL.length);\n", "", "hi 1\n"),
    stdio("worker threads", "const { Worker, isMainThread, parentPort } = require('worker_threads'); if (isMainThread) { new Worker(__filename).on('message', m => console.log(m)); } else parentPort.postMessage(7);\n", "", "7\n"),
)  # fmt: skip
