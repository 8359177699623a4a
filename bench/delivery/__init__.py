"""From a committed change to the signal at a device: latency, the rate of publishing, all roles of a deployment."""
