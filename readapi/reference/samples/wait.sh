until=$(($(date +%s) + ${SECONDS_TO_RUN:-60}))
since=$(date -u +%Y-%m-%dT%H:%M:%SZ) cursor= wait=1
while [ "$(date +%s)" -lt "$until" ]; do
  : > headers.txt
  status=$(curl -sS -m 45 -o page.json -D headers.txt -w '%{http_code}' '{{.URL}}' -G -d created_since="$since" \
    ${cursor:+-d cursor=$cursor} -H "Authorization: Bearer $API_KEY" -H 'Prefer: wait=30') || status=broken
  case $status in
  200) wait=1 ;;
  broken | 429 | 5??) # waits twice as long each time, and a little more at random
    after=$(grep -i '^retry-after:' headers.txt | tr -dc 0-9)
    sleep $(((${after:-0} > wait ? after : wait) + RANDOM % (wait + 1)))
    wait=$((wait < 32 ? 2 * wait : 60))
    continue ;;
  *) cat page.json >&2; exit 1 ;; # its detail says what is wrong
  esac
  jq -r '.data[] | "\(.created_at) \(.type) \(.data.object_id)"' page.json
  cursor=$(jq -r .next_cursor page.json)
  grep -qi '^preference-applied:' headers.txt || sleep 5 # too many requests of this key wait
done
