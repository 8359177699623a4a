"""Revocation of certificates: the serials that an authority has issued, and its revocation lists."""
