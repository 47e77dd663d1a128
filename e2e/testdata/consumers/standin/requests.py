"""As much of the requests library as the consumer beside it uses, for machines that do not have it."""
import json as _json
import urllib.error
import urllib.request


class Response:
    def __init__(self, status, headers, content):
        self.status_code, self.headers, self.content = status, headers, content

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return _json.loads(self.content)


def _send(method, url, headers=None, json=None, timeout=None):
    data = _json.dumps(json).encode() if json is not None else (b"" if method == "POST" else None)
    request = urllib.request.Request(url, data=data, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return Response(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return Response(error.code, error.headers, error.read())


def get(url, **options):
    return _send("GET", url, **options)


def post(url, **options):
    return _send("POST", url, **options)
