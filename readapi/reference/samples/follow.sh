cursor=$(cat cursor.txt 2>/dev/null || true)
while :; do
  page=$(curl -sS --fail-with-body --retry 5 '{{.URL}}' -G -d limit=100 -d include=removed \
    ${cursor:+-d cursor=$cursor} -H "Authorization: Bearer $API_KEY") || { echo "$page" >&2; exit 1; }
  printf '%s' "$page" | jq -r '.data[] | if .removed then "removed \(.id)" else "changed \(.id)" end'
  cursor=$(printf '%s' "$page" | jq -r .next_cursor)
  printf '%s' "$cursor" > cursor.txt # after the rows are safe
  [ "$(printf '%s' "$page" | jq -r .has_more)" = true ] || break
done
