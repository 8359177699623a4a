"""The pages, one module for each subject. A module has one `PageSet`, which `component.py` lists.

To add a page:

1. Write a handler `async def show(self, request: ConsoleRequest) -> ApiResponse` in the `PageSet` of its subject. It
   reads through `request.read(function, …)`, the same operator functions that the API routes call, and ends with
   `request.render("subject/page.html", section="subject", title="…", topics=(UPDATES,), …)`. It checks the owner of
   what it shows with `request.require(owner_id)`: outside the person's grants, nothing exists (404).
2. Return `pages.get(path, self.show, Needs(Area.…, Role.viewer))` from `routes`.
3. Write the template: `{% extends "layout.html" %}`, block `content`, macros from `macros.html` (facts, table, pager,
   timeline, diff, fields of a form, empty). Give each part that changes an id and `data-live`: `live.js` replaces
   it when a topic of the page changes. No inline style and no inline script: the content security policy refuses them.
4. An action is `pages.post(path, self.act, Needs(…, Role.operator), is_final=…)`. The guard has checked origin, form
   token and, with `is_final`, the password. The handler calls `request.act(event, detail, function, …)`, which
   records who did it where the function does not itself, and returns `request.redirect(path, done="…")`; the text of
   `done` is in `rendering/texts.py`. The form has `{{ form_token_field() }}`.
5. A new section gets a line in `navigation.py`. `find` makes its ids searchable, `attention` puts problems on the
   overview.
6. Tests: a page in `tests/console/test_pages.py` (every page is opened by every role, and checked by axe).
"""
