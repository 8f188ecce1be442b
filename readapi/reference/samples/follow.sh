cursor=$(cat cursor.txt 2>/dev/null || true) wait=1
while :; do
  : > headers.txt
  status=$(curl -sS -m 60 -o page.json -D headers.txt -w '%{http_code}' '{{.URL}}' -G -d limit=100 -d include=removed \
    ${cursor:+-d cursor=$cursor} -H "Authorization: Bearer $API_KEY") || status=broken
  case $status in
  200) wait=1 ;;
  broken | 429 | 5??) # waits twice as long each time, and a little more at random
    after=$(grep -i '^retry-after:' headers.txt | tr -dc 0-9)
    sleep $(((${after:-0} > wait ? after : wait) + RANDOM % (wait + 1)))
    wait=$((wait < 32 ? 2 * wait : 60))
    continue ;;
  *) cat page.json >&2; exit 1 ;; # its detail says what is wrong
  esac
  jq -r '.data[] | if .removed then "removed \(.id)" else "changed \(.id)" end' page.json
  cursor=$(jq -r .next_cursor page.json)
  printf '%s' "$cursor" > cursor.txt # after the rows are safe
  [ "$(jq -r .has_more page.json)" = true ] || break
done
