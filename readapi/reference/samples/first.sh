id=$(curl -sS --fail-with-body '{{.List}}?limit=1' -H "Authorization: Bearer $API_KEY" | jq -er '.data[0].{{.Field}}') # or one that you know
curl -sS --fail-with-body "{{.Before}}$id{{.After}}" -H "Authorization: Bearer $API_KEY"
