import json
import os
import urllib.request

request = urllib.request.Request(
    "{{.URL}}",
    headers={"Authorization": "Bearer " + os.environ["API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    print(json.dumps(json.load(response), indent=2))
