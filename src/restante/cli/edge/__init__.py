"""The nouns of edge sites: sites, zones, miners, collectors, commands, rules, telemetry, safety events, audit."""
