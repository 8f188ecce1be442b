import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

cursor = open("cursor.txt").read() if os.path.exists("cursor.txt") else ""
more = True
while more:
    query = {"limit": "100", "include": "removed"}
    if cursor:
        query["cursor"] = cursor
    request = urllib.request.Request(
        "{{.URL}}?" + urllib.parse.urlencode(query),
        headers={"Authorization": "Bearer " + os.environ["API_KEY"]},
    )
    try:
        with urllib.request.urlopen(request) as response:
            page = json.load(response)
    except urllib.error.HTTPError as error:
        if error.code != 429:
            sys.exit(error.read().decode())  # its detail says what is wrong
        time.sleep(int(error.headers["Retry-After"]))
        continue
    for row in page["data"]:
        print("removed" if row.get("removed") else "changed", row["id"])
    cursor, more = page["next_cursor"], page["has_more"]
    with open("cursor.txt", "w") as file:  # after the rows are safe
        file.write(cursor)
