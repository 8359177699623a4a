"""The scopes of clients' access tokens, and those that open each kind of route unless the settings name others."""

# Open Banking's first: of event polling, then those that clients of its other APIs have.
SCOPES = ("eventpolling", "accounts", "payments", "fundsconfirmations", "ssf.read", "ssf.manage")

POLLING_SCOPES = ("eventpolling",)
SUBSCRIPTION_SCOPES = ("eventpolling", "accounts", "payments", "fundsconfirmations")
SSF_READ_SCOPES = ("ssf.read", "ssf.manage")
SSF_MANAGE_SCOPES = ("ssf.manage",)
