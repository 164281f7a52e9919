#!/bin/bash
set -e
cat > /app/count <<'END'
#!/bin/bash
tr 'A-Z \t' 'a-z\n\n' < "$1" | grep . | sort | uniq -c | sort -k1,1nr -k2 | while read -r n word; do echo "$word $n"; done
END
chmod +x /app/count
