cursor=$(cat cursor.txt 2>/dev/null || true)
curl -sS --fail-with-body --compressed --retry 5 '{{.URL}}' -G -d include=removed ${cursor:+-d cursor=$cursor} \
  -H 'Accept: application/x-ndjson' -H "Authorization: Bearer $API_KEY" -o list.ndjson || { cat list.ndjson >&2; exit 1; }
# A list without its last line was broken off: nothing of it is taken over.
next=$(tail -n 1 list.ndjson | jq -er .next_cursor) || { echo 'the list is not whole' >&2; exit 1; }
sed '$d' list.ndjson | jq -r 'if .removed then "removed \(.id)" else "changed \(.id)" end'
printf '%s' "$next" > cursor.txt # after the rows are safe
echo "the list goes on at $next"
