"""Certificate authorities, certificates, and private keys encrypted for devices."""
