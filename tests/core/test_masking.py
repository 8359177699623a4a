import pytest

from restante.core.masking import mask_url_passwords, mask_value


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://user:pw@host/db", "postgresql://user:[secret]@host/db"),
        ("redis://:pw@host:6379/0", "redis://:[secret]@host:6379/0"),
        (
            '{"url":"http://u:p@h/","other":"http://host:80/"}',
            '{"url":"http://u:[secret]@h/","other":"http://host:80/"}',
        ),
        ("two http://a:b@c and https://d:e/f@g", "two http://a:[secret]@c and https://d:[secret]@g"),
        ("http://host:8080/path", "http://host:8080/path"),
        ("http://user@host/", "http://user@host/"),
        ("a:b@c", "a:b@c"),
        ("", ""),
    ],
)
def test_url_passwords_are_masked(text: str, masked: str) -> None:
    assert mask_url_passwords(text) == masked


def test_masked_value_has_nothing_of_the_value() -> None:
    assert mask_value("value") == mask_value("") == "[secret]"
