"""The only edge to language-model servers: one client, one ledger."""
