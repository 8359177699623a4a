"""Pages as HTML: the templates and the pieces that every page uses, charts, differences, and shared texts."""
