import json
import os
import sys
import urllib.error
import urllib.request

request = urllib.request.Request(
    "{{.URL}}",
    headers={"Authorization": "Bearer " + os.environ["API_KEY"]},
)
try:
    with urllib.request.urlopen(request) as response:
        page = json.load(response)
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())  # its detail says what is wrong
for row in page["data"]:
    print(json.dumps(row))
print("next_cursor:", page["next_cursor"])
