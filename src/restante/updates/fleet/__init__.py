"""The fleet as operators see it: filters, lists, counts, exports, tags, groups, and what each device has received."""
