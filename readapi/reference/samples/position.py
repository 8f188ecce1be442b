import json
import os
import sys
import time
import urllib.error
import urllib.request

position = os.environ.get("POSITION", "1")  # that appending has returned
request = urllib.request.Request(
    "{{.URL}}?limit=10",
    headers={"Authorization": "Bearer " + os.environ["API_KEY"], "Log-Position-At-Least": position},
)
for wait in (1, 2, 4, 8, None):
    try:
        with urllib.request.urlopen(request) as response:
            page = json.load(response)
        break
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503) or wait is None:
            sys.exit(error.read().decode())  # its detail says what is wrong
        time.sleep(max(wait, int(error.headers["Retry-After"])))
print(len(page["data"]), "rows at position", response.headers["Log-Position"])
