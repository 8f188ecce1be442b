curl -fsS '{{.URL}}' -H "Authorization: Bearer $API_KEY"
