import json
import os
import urllib.request

request = urllib.request.Request(
    "{{.URL}}",
    headers={"Authorization": "Bearer " + os.environ["API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    page = json.load(response)
for row in page["data"]:
    print(row["id"])
print("next_cursor:", page["next_cursor"])
