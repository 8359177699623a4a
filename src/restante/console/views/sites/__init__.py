"""The pages of edge commands: sites and miners, commands and approvals."""
