import json
import os
import sys
import urllib.error
import urllib.request


def read(url):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["API_KEY"]})
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())  # its detail says what is wrong


row = read("{{.List}}?limit=1")["data"][0]  # or an id that you know
print(json.dumps(read("{{.Before}}" + {{if .OfClient}}row["client"]["id"]{{else}}row["id"]{{end}}{{with .After}} + "{{.}}"{{end}}), indent=2))
