until=$(($(date +%s) + ${SECONDS_TO_RUN:-60}))
since=$(date -u +%Y-%m-%dT%H:%M:%SZ) cursor=
while [ "$(date +%s)" -lt "$until" ]; do
  page=$(curl -sS --fail-with-body --retry 5 -m 45 -D headers.txt '{{.URL}}' -G -d created_since="$since" \
    ${cursor:+-d cursor=$cursor} -H "Authorization: Bearer $API_KEY" -H 'Prefer: wait=30') || { echo "$page" >&2; exit 1; }
  printf '%s' "$page" | jq -r '.data[] | "\(.created_at) \(.type) \(.data.object_id)"'
  cursor=$(printf '%s' "$page" | jq -r .next_cursor)
  grep -qi '^preference-applied:' headers.txt || sleep 5 # too many requests of this key wait
done
