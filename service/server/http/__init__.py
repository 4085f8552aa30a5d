"""HTTP on connections that nobody may hold for long, and bodies that nobody may make too long."""
