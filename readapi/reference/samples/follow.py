import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def read(query):
    wait = 1
    while True:
        request = urllib.request.Request(
            "{{.URL}}?" + urllib.parse.urlencode(query),
            headers={"Authorization": "Bearer " + os.environ["API_KEY"]},
        )
        after = ""
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code != 429 and error.code < 500:
                sys.exit(error.read().decode())  # its detail says what is wrong
            after = error.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            print("the connection broke:", error, file=sys.stderr)
        # Twice as long each time, and a little more at random.
        time.sleep(max(wait, int(after) if after.isdigit() else 0) + random.uniform(0, wait))
        wait = min(2 * wait, 60)


cursor = open("cursor.txt").read() if os.path.exists("cursor.txt") else ""
more = True
while more:
    query = {"limit": "100", "include": "removed"}
    if cursor:
        query["cursor"] = cursor
    page = read(query)
    for row in page["data"]:
        print("removed" if row.get("removed") else "changed", row["id"])
    cursor, more = page["next_cursor"], page["has_more"]
    with open("cursor.txt", "w") as file:  # after the rows are safe
        file.write(cursor)
