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
        sys.stdout.buffer.write(response.read())
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())  # its detail says what is wrong
