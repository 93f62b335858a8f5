"""Bearer tokens for OAUTHBEARER: asked for once per cluster and process, kept, and refreshed for all clients."""
