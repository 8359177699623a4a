from restante.web.answer import JSON, NO_STORE, Answer, as_response, html_answer, json_answer


def test_an_answer_is_not_to_be_stored_unless_it_says_otherwise() -> None:
    assert NO_STORE in Answer(204).headers
    assert NO_STORE in json_answer(b"{}").headers
    assert NO_STORE in html_answer("").headers


def test_headers_are_added_behind_those_there_are() -> None:
    answer = json_answer(b"{}", 401).with_headers((b"www-authenticate", b"Bearer"))
    assert answer == Answer(401, (JSON, NO_STORE, (b"www-authenticate", b"Bearer")), b"{}")


def test_a_response_has_the_answers_headers_and_its_length() -> None:
    response = as_response(Answer(200, (JSON, (b"etag", b"1-1")), "ü".encode()))
    assert response.raw_headers == [JSON, (b"etag", b"1-1"), (b"content-length", b"2")]
    assert (response.status_code, response.body) == (200, "ü".encode())


def test_an_answer_without_content_has_no_length() -> None:
    for status in (204, 304):
        assert as_response(Answer(status)).raw_headers == [NO_STORE]


def test_an_empty_body_that_may_be_one_says_so() -> None:
    assert (b"content-length", b"0") in as_response(Answer(400)).raw_headers


def test_a_page_loads_runs_and_is_framed_by_nothing_from_elsewhere() -> None:
    answer = html_answer("<p>ü</p>", 200, (b"set-cookie", b"a=b"))
    headers = dict(answer.headers)
    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    assert b"default-src 'self'" in headers[b"content-security-policy"]
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert headers[b"set-cookie"] == b"a=b"
    assert answer.body == "<p>ü</p>".encode()
