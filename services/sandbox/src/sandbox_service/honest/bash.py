"""Bash with the usual tools."""

from functools import partial

from sandbox_service import honest

stdio = partial(honest.stdio, language="bash")
CASES = (
    stdio("read", "read a b\necho $((a + b))\n", "1 2\n", "3\n"),
    stdio("while read", 's=0\nwhile read -r x; do s=$((s + x)); done\necho "$s"\n', "1\n2\n", "3\n"),
    stdio("process substitution", "paste -d, <(printf '1\\n2\\n') <(printf 'a\\nb\\n')\n", "", "1,a\n2,b\n"),
    stdio("loop over a substitution", 'while read -r x; do echo "<$x>"; done < <(sort)\n', "b\na\n", "<a>\n<b>\n"),
    stdio("cat of /dev/stdin", "cat /dev/stdin | wc -l\n", "a\nb\n", "2\n"),
    stdio("/dev/fd/0", "cat /dev/fd/0\n", "x\n", "x\n"),
    stdio("to /dev/stdout and /dev/stderr", "echo out > /dev/stdout\necho err > /dev/stderr\n", "", "out\n"),
    stdio("here document", "cat <<END\nv=$((6 * 7))\nEND\n", "", "v=42\n"),
    stdio("here string", 'tr a-z A-Z <<< "abc"\n', "", "ABC\n"),
    stdio("mapfile", 'mapfile -t l\necho "${#l[@]} ${l[1]}"\n', "a\nb\n", "2 b\n"),
    stdio("arrays", "a=(3 1 2)\na+=(4)\necho ${a[@]} ${#a[@]} ${a[-1]}\ndeclare -A m=([x]=1)\necho ${m[x]}\n", "", "3 1 2 4 4 4\n1\n"),
    stdio("functions and local", 'f() { local n=$1; ((n < 2)) && { echo 1; return; }; echo $((n * $(f $((n - 1))))); }\nf 6\n', "", "720\n"),
    stdio("awk", "awk '{ s += $2 } END { print s, NR }'\n", "a 1\nb 2\n", "3 2\n"),
    stdio("sed", "sed -E 's/(a)(b)/\\2\\1/g'\n", "abab\n", "baba\n"),
    stdio("sort and uniq", "sort | uniq -c | sort -rn | head -1 | awk '{print $2}'\n", "a\nb\na\n", "a\n"),
    stdio("temporary file", 't=$(mktemp)\necho hi > "$t"\ncat "$t"\nrm "$t"\n', "", "hi\n"),
    stdio("strings", 's=hello\necho ${s^^} ${#s} ${s:1:3} ${s/l/L} ${s%o}\n', "", "HELLO 5 ell heLlo hell\n"),
    stdio("case and regex", 'read x\n[[ $x =~ ^([0-9]+)-(.*)$ ]] && echo ${BASH_REMATCH[2]}\ncase $x in 1*) echo one;; esac\n', "12-ab\n", "ab\none\n"),
    stdio("set -euo pipefail", "set -euo pipefail\ntrap 'echo bye' EXIT\necho hi | cat\n", "", "hi\nbye\n"),
    stdio("background jobs", "(sleep 0.05; echo late) &\nwait\necho done\n", "", "late\ndone\n"),
    stdio("coprocess of descriptors", "exec 3< <(echo x)\nread -r a <&3\nexec 3<&-\necho $a\n", "", "x\n"),
    stdio("seq and xargs", "seq 3 | xargs -n1 echo n\n", "", "n 1\nn 2\nn 3\n"),
    stdio("printf and RANDOM", "printf '%05.1f|%s\\n' 3.14159 \"$((RANDOM >= 0))\"\n", "", "003.1|1\n"),
)  # fmt: skip
