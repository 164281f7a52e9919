# Fills the processors from a shell: pipes between processes that only copy.
#
# Kind: overspend
# Expect: TIME_LIMIT, RUNTIME_ERROR, OUTPUT_LIMIT, MEMORY_LIMIT, FAILED

for i in 1 2 3 4 5 6 7 8; do
  (while :; do :; done) &
  yes | cat | cat > /dev/null &
done
wait
