"""The operator console: pages at `/console` for people with a browser. It has no SQL and no protocol's wire format.

    browser ─▶ guard (pages.py): session, grants, form token, password again ─▶ view ─▶ operator functions of a protocol
       ▲                                                                          └──▶ template ─▶ page
       └── live.js ◀── `/console/live`: one stream per page says which topics changed; the page is read again

How to add a page: see `views/__init__.py`.
"""
