curl -sS --fail-with-body '{{.URL}}' -H "Authorization: Bearer $API_KEY" --output -
