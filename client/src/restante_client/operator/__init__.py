"""The operator API: `OperatorClient` and its blocking twin."""
