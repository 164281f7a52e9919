"""Rust, as rustc builds it."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="rust")


def main(name: str, body: str, stdin: str, stdout: str, head: str = "") -> object:
    return stdio(
        name,
        f"#![allow(unused)]\nuse std::collections::*;\nuse std::io::{{self, *}};\n{head}fn main() {{ {body} }}\n",
        stdin,
        stdout,
    )


CASES = (
    main("read_line", 'let mut s = String::new(); io::stdin().read_line(&mut s).unwrap(); let v: Vec<i32> = s.split_whitespace().map(|x| x.parse().unwrap()).collect(); println!("{}", v[0] + v[1]);', "1 2\n", "3\n"),
    main("lines", 'let n: i64 = io::stdin().lock().lines().map(|l| l.unwrap().trim().parse::<i64>().unwrap()).sum(); println!("{}", n);', "1\n2\n", "3\n"),
    main("read_to_string", 'let mut s = String::new(); io::stdin().read_to_string(&mut s).unwrap(); println!("{}", s.len());', "abc\n", "4\n"),
    main("/dev/stdin", 'println!("{}", std::fs::read_to_string("/dev/stdin").unwrap().trim());', "hi\n", "hi\n"),
    main("buffered output", 'let mut o = BufWriter::new(io::stdout().lock()); for i in 0..3 { writeln!(o, "{}", i).unwrap(); }', "", "0\n1\n2\n"),
    main("collections", 'let mut m = BTreeMap::new(); for c in "hello".chars() { *m.entry(c).or_insert(0) += 1; } println!("{:?}", m);', "", "{'e': 1, 'h': 1, 'l': 2, 'o': 1}\n"),
    main("heap", 'let mut h = BinaryHeap::from(vec![1, 3, 2]); print!("{:?}", h.pop());', "", "Some(3)\n"),
    main("threads", 'let t = std::thread::spawn(|| 7); println!("{}", t.join().unwrap());', "", "7\n"),
    main("deep recursion in a thread", 'let t = std::thread::Builder::new().stack_size(128 << 20).spawn(|| f(200000)).unwrap(); println!("{}", t.join().unwrap());', "", "200000\n", "fn f(n: u64) -> u64 { if n == 0 { 0 } else { 1 + f(n - 1) } }\n"),
    main("traits and generics", 'println!("{}", Sq(3.0).area() as i32);', "", "9\n", "trait A { fn area(&self) -> f64; }\nstruct Sq(f64);\nimpl A for Sq { fn area(&self) -> f64 { self.0 * self.0 } }\n"),
    main("match and option", 'let o: Option<i32> = Some(2); println!("{}", match o { Some(x) if x > 1 => "big", Some(_) => "small", None => "none" });', "", "big\n"),
    main("exit", 'println!("a"); std::process::exit(0);', "", "a\n"),
)  # fmt: skip
