import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

query = {"include": "removed"}
if os.path.exists("cursor.txt"):
    query["cursor"] = open("cursor.txt").read()
request = urllib.request.Request(
    "{{.URL}}?" + urllib.parse.urlencode(query),
    headers={
        "Accept": "application/x-ndjson",
        "Authorization": "Bearer " + os.environ["API_KEY"],
    },
)
end = None
try:
    with urllib.request.urlopen(request) as lines:
        for line in lines:  # as they come: the list is never in memory as a whole
            row = json.loads(line)
            if "next_cursor" in row:
                end = row
            else:
                print("removed" if row.get("removed") else "changed", row["id"])
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())  # its detail says what is wrong
if end is None:
    sys.exit("the list was broken off: start again from the cursor that you have")
with open("cursor.txt", "w") as file:  # after the rows are safe
    file.write(end["next_cursor"])
print("the list goes on at", end["next_cursor"])
