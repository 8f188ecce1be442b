position=${POSITION:-1} # that appending has returned
curl -sS --fail-with-body --retry 5 -D headers.txt '{{.URL}}?limit=10' \
  -H "Authorization: Bearer $API_KEY" -H "Log-Position-At-Least: $position"
grep -i '^log-position:' headers.txt # that the answer is of
