from restante.web.response import JSON, NO_STORE, ApiResponse, html_response, json_response, to_starlette


def test_responses_are_not_stored_by_default() -> None:
    assert NO_STORE in ApiResponse(204).headers
    assert NO_STORE in json_response(b"{}").headers
    assert NO_STORE in html_response("").headers


def test_with_headers_appends() -> None:
    response = json_response(b"{}", 401).with_headers((b"www-authenticate", b"Bearer"))
    assert response == ApiResponse(401, (JSON, NO_STORE, (b"www-authenticate", b"Bearer")), b"{}")


def test_starlette_response_has_headers_and_length() -> None:
    response = to_starlette(ApiResponse(200, (JSON, (b"etag", b"1-1")), "ü".encode()))
    assert response.raw_headers == [JSON, (b"etag", b"1-1"), (b"content-length", b"2")]
    assert (response.status_code, response.body) == (200, "ü".encode())


def test_response_without_content_has_no_length() -> None:
    for status in (204, 304):
        assert to_starlette(ApiResponse(status)).raw_headers == [NO_STORE]


def test_empty_body_has_length_zero() -> None:
    assert (b"content-length", b"0") in to_starlette(ApiResponse(400)).raw_headers


def test_page_forbids_content_of_other_origins() -> None:
    response = html_response("<p>ü</p>", 200, (b"set-cookie", b"a=b"))
    headers = dict(response.headers)
    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    assert b"default-src 'self'" in headers[b"content-security-policy"]
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert headers[b"set-cookie"] == b"a=b"
    assert response.body == "<p>ü</p>".encode()
