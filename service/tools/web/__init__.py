"""Pages of the web: which addresses may be asked, downloading, and reading."""
