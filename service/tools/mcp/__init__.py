"""Tools of MCP servers: this is the client of the Model Context Protocol, on its official SDK."""
